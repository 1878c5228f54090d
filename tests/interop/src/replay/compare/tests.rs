//! What two ways are compared by.

use std::collections::BTreeMap;

use super::{Arrived, Way, differences};
use crate::corpus::Answer;

const ASKED: &str = r#"{"id":1,"method":"m","params":{"a":1}}"#;
const STREAM: &str =
    "data: {\"method\":\"n\",\"params\":{\"p\":1}}\n\ndata: {\"id\":1,\"result\":{}}\n\n";

fn mk_way(status: u16, kind: &str, body: &str) -> Way {
    let headers = BTreeMap::from([("content-type".to_owned(), kind.to_owned())]);
    Way {
        answer: Answer::read(status, headers, body.as_bytes()).unwrap(),
        arrived: Some(mk_arrived(ASKED, &[])),
    }
}

fn mk_arrived(body: &str, headers: &[(&str, &str)]) -> Arrived {
    let headers = headers.iter();
    Arrived {
        headers: headers
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        body: body.to_owned(),
    }
}

fn said(direct: &Way, through: &Way) -> Vec<String> {
    let found = differences(direct, through).into_iter();
    found
        .map(|apart| format!("{}: {} -> {}", apart.path, apart.one, apart.other))
        .collect()
}

#[test]
fn a_lost_note_and_the_framing_are_seen() {
    let direct = mk_way(200, "text/event-stream", STREAM);
    assert_eq!(said(&direct, &direct), [""; 0]);
    let through = mk_way(200, "application/json", r#"{"id":1,"result":{}}"#);
    assert_eq!(
        said(&direct, &through),
        [
            "framing: text/event-stream -> application/json",
            r#"notes/0: {"method":"n","params":{"p":1}} -> absent"#,
        ]
    );
}

#[test]
fn an_answer_without_the_upstream_is_the_gateway_s_own() {
    let direct = mk_way(200, "application/json", r#"{"id":1,"result":{}}"#);
    let mut through = mk_way(400, "application/json", r#"{"id":1,"error":{"code":1}}"#);
    through.arrived = None;
    assert_eq!(
        said(&direct, &through),
        [
            "status: 200 -> 400",
            r#"own reply/error: absent -> {"code":1}"#,
            "own reply/result: {} -> absent",
            "sent to be refused: arrived -> absent",
        ]
    );
}

#[test]
fn what_reached_the_upstream_is_seen() {
    let direct = mk_way(200, "application/json", r#"{"id":1,"result":{}}"#);
    let mut through = mk_way(200, "application/json", r#"{"id":1,"result":{}}"#);
    let headers = [("authorization", "Bearer k"), ("user-agent", "any")];
    let body = r#"{"id":1,"method":"m","params":{"a":1.0}}"#;
    through.arrived = Some(mk_arrived(body, &headers));
    assert_eq!(
        said(&direct, &through),
        [
            "sent/params/a: 1 -> 1.0",
            "sent header authorization: absent -> Bearer k",
        ]
    );
}

#[test]
fn what_the_gateway_asks_in_its_own_name_is_compared_by_what_it_asks_for() {
    let direct = mk_way(200, "application/json", r#"{"id":1,"result":{}}"#);
    let mut through = mk_way(200, "application/json", r#"{"id":1,"result":{}}"#);
    let body = r#"{"id":7,"method":"m","params":{"a":2,"_meta":{"who":"hangar-gateway"}}}"#;
    through.arrived = Some(mk_arrived(body, &[]));
    assert_eq!(
        said(&direct, &through),
        [
            "sent: the client's -> the gateway's own",
            "sent params/a: 1 -> 2",
        ]
    );
}
