//! The parts that need no process.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use serde_json::Value;

use crate::answers::{Answers, Request, Said, task_id_of};
use crate::case::Case;
use crate::load::{Round, Target, Workers};
use crate::measure::{Spent, figures, percentile};
use crate::procfs;
use crate::report::Report;
use crate::run::Args;

fn millis(all: impl IntoIterator<Item = u64>) -> Vec<Duration> {
    all.into_iter().map(Duration::from_millis).collect()
}

#[test]
fn a_percentile_is_a_latency_that_was_measured() {
    let hundred = millis(1..=100);
    assert_eq!(percentile(&hundred, 50), Duration::from_millis(50));
    assert_eq!(percentile(&hundred, 99), Duration::from_millis(99));
    assert_eq!(percentile(&hundred[..1], 50), Duration::from_millis(1));
    assert_eq!(percentile(&hundred[..3], 99), Duration::from_millis(3));
    assert_eq!(percentile(&[], 99), Duration::ZERO);
}

#[test]
fn figures_are_of_all_rounds_together() {
    let mut relayed = Round::default();
    for latencies in [millis([9, 1, 5]), millis([3])] {
        let elapsed = Duration::from_secs(1);
        relayed.add(Round { latencies, elapsed });
    }
    let straight = Round {
        latencies: millis([1; 16]),
        elapsed: Duration::from_secs(2),
    };
    let copied = Round {
        latencies: millis([1; 8]),
        elapsed: Duration::from_secs(2),
    };
    let relayed = Spent(relayed, Duration::from_millis(1));
    let copied = Spent(copied, Duration::from_millis(2));
    let figures = figures("call-small", 7, relayed, &copied, &straight, 5 << 20).unwrap();
    let line = Report::Json.row(&figures).unwrap();
    assert_eq!(
        line,
        "{\"name\":\"call-small\",\"concurrency\":7,\"rps\":2.0,\"direct_rps\":8.0,\"ratio\":0.25,\
         \"bare_ratio\":0.5,\"cpu_us_per_call\":250.0,\"bare_cpu_us_per_call\":250.0,\"p50_us\":3000,\"p99_us\":9000,\"rss_bytes\":5242880}\n"
    );
    let row = Report::Table.row(&figures).unwrap();
    let head = Report::Table.head(Duration::from_secs(3)).unwrap();
    assert_eq!(head.lines().last().unwrap().len(), row.trim_end().len());
}

#[test]
fn a_round_without_a_call_is_no_figure() {
    let round = || Round {
        latencies: Vec::new(),
        elapsed: Duration::from_secs(1),
    };
    let spent = || Spent(round(), Duration::ZERO);
    let error = figures("call-1mb", 1, spent(), &spent(), &round(), 0).unwrap_err();
    assert!(error.to_string().contains("more seconds"), "{error}");
}

#[test]
fn times_are_found_behind_any_name() {
    let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 150 25 3 4 20 0 3 0 99 1 2";
    assert_eq!(procfs::cpu_of(stat), Some(Duration::from_millis(1750)));
    assert_eq!(procfs::cpu_of("7 (short) S 1"), None);
    let status = "Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  512 kB\nThreads:\t3\n";
    assert_eq!(procfs::resident_of(status), Some(512 << 10));
    assert_eq!(procfs::resident_of("Name:\tzombie\n"), None);
}

#[test]
fn this_process_has_used_time_and_memory() {
    let pid = std::process::id();
    procfs::cpu(pid).unwrap();
    assert!(procfs::resident_bytes(pid).unwrap() > 1 << 16);
}

#[test]
fn every_case_has_an_answer_of_the_size_that_it_promises() {
    let answers = Answers::prepare();
    for case in Case::value_variants() {
        let task = case.task_tool().map(|tool| task_id_of(tool, "3"));
        let request = case.request(&task.clone().unwrap_or_default());
        let (member, value) = answer(&answers, &request.body());
        assert_eq!(member, "result", "{}", case.name());
        let is_large = value.len() > 1_000_000;
        assert_eq!(is_large, case.name().ends_with("1mb"), "{}", case.name());
        let value: Value = serde_json::from_str(&value).unwrap();
        assert_eq!(value["taskId"].as_str(), task.as_deref(), "{}", case.name());
    }
}

#[test]
fn what_the_upstream_does_not_know_is_an_error() {
    let request = br#"{"jsonrpc":"2.0","id":"x","method":"tasks/get","params":{"taskId":"none"}}"#;
    let (member, value) = answer(&Answers::prepare(), &Bytes::from_static(request));
    assert_eq!(member, "error");
    let error: Value = serde_json::from_str(&value).unwrap();
    assert_eq!(error["code"], -32602);
}

#[test]
fn a_case_is_asked_for_by_the_name_that_is_printed() {
    for case in Case::value_variants() {
        let named = Case::from_str(case.name(), false);
        assert_eq!(named.as_ref(), Ok(case));
    }
    let refused = |args: &[&str]| Args::try_parse_from(args).unwrap_err().exit_code();
    assert_eq!(refused(&["bench", "--only", "call-huge"]), 2);
    for seconds in ["0", "-1", "nan", "soon"] {
        assert_eq!(refused(&["bench", "--seconds", seconds]), 2, "{seconds}");
    }
}

/// A peer that says the same to whatever it is sent, over and over.
fn mk_peer(response: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|read| read > 0) {
                    stream.write_all(response.as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn one_answer_that_is_not_the_expected_one_fails_the_round() {
    for (response, said) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nright", None),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong",
            Some("200 OK wrong"),
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nrig",
            Some("lacks 2 bytes"),
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nrights",
            Some("200 OK rights"),
        ),
        (
            "HTTP/1.1 500 No\r\ncontent-length: 5\r\n\r\nright",
            Some("500 Internal"),
        ),
    ] {
        let envelope = Case::CallSmall.request("");
        let peer = mk_peer(response);
        let call = || {
            let target = Target::new(peer, "/mcp", &envelope).unwrap();
            (target, Bytes::from_static(b"right"))
        };
        let mut workers = Workers::connect(vec![call(), call()]).await.unwrap();
        let round = workers.round(Duration::from_millis(20)).await;
        match (round, said) {
            (Ok(round), None) => assert!(round.latencies.len() >= 2),
            (Err(error), Some(said)) => {
                let error = format!("{error:#}");
                assert!(error.starts_with("2 of 2 workers failed"), "{error}");
                assert!(error.contains(said), "{error}");
            }
            (round, said) => panic!("{round:?} for {said:?}"),
        }
    }
}

fn answer(answers: &Answers, body: &Bytes) -> (&'static str, String) {
    let request: Request<'_> = serde_json::from_slice(body).unwrap();
    let Said { member, head, rest } = answers.to(&request);
    (member, head + std::str::from_utf8(&rest).unwrap())
}
