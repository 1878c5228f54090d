//! Exchanges and contract fetches with a server on loopback.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use hangar_relay::headers;
use hangar_relay::method::Method;
use hangar_relay::rewrite::{self, MetaOf, Own};
use hangar_wire::{
    AddressRules, Admission, NewTools, Pinning, PinningMode, Protocol, Snapshot, Term, ToolRules,
    UpstreamLimits, UpstreamTasks,
};
use http::{StatusCode, header};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::exchange::{self, Exchange, Failure, Received};
use super::{Cancels, NoPlace};
use crate::config::{Active, Config, Runtimes, Upstream};

const LIST: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}"#;
const MOST: u64 = 4096;

pub(super) async fn mk_server(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

fn mk_active(url: &str) -> Arc<Active> {
    mk_active_of(url, Protocol::V2026_07_28)
}

pub(super) fn mk_active_of(url: &str, protocol: Protocol) -> Arc<Active> {
    let upstream = hangar_wire::Upstream {
        namespace: "tools".into(),
        name: "reports".into(),
        uid: "u-1".into(),
        generation: 1,
        url: url.into(),
        protocol,
        admission: Admission::Open,
        tools: ToolRules {
            allow: vec!["*".into()],
            deny: vec![],
        },
        pinning: Pinning {
            mode: PinningMode::Disabled,
            new_tools: NewTools::Serve,
            pins: BTreeMap::new(),
            max_age_ms: 1000,
        },
        tasks: UpstreamTasks {
            relay: true,
            retention_ms: 1000,
        },
        limits: UpstreamLimits {
            request_timeout_ms: 5000,
            max_response_bytes: MOST,
            max_concurrent: 8,
        },
    };
    let rules = AddressRules {
        allow: vec!["127.0.0.0/8".into()],
        deny: vec![],
    };
    let config = Config::default();
    let snapshot = Snapshot::new(Term::default(), rules, vec![upstream], vec![]).unwrap();
    config.apply(snapshot, &mut Runtimes::default()).unwrap();
    config.load().unwrap()
}

pub(super) fn mk_upstream(active: &Active) -> Arc<Upstream> {
    let uid = hangar_ledger::UpstreamUid("u-1".into());
    Arc::clone(active.upstream_by_uid(&uid).unwrap())
}

async fn ask(active: &Active) -> Result<Bytes, Failure> {
    receive(active).await.map(|received| received.message)
}

async fn receive(active: &Active) -> Result<Received, Failure> {
    let id = rewrite::numeric_id(1);
    let own = Own {
        id: &id,
        meta: MetaOf::Gateway,
    };
    let upstream = mk_upstream(active);
    exchange::send(Exchange {
        http: &active.http,
        upstream: &upstream,
        headers: headers::upstream(Method::ToolsList, None),
        body: own.tools_list(None).into(),
        id: &id,
        owner: None,
        room: active.http.own(),
        deadline: exchange::deadline(&upstream, Duration::from_secs(5)),
    })
    .await
}

/// One answer of the server to every request.
async fn answered(
    answer: impl Fn() -> Response + Clone + Send + Sync + 'static,
) -> Result<Bytes, Failure> {
    let app = Router::new().route("/mcp", post(move || std::future::ready(answer())));
    let address = mk_server(app).await;
    ask(&mk_active(&format!("http://{address}/mcp"))).await
}

fn stream(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream")], text).into_response()
}

#[tokio::test]
async fn a_reply_is_read_in_both_framings_and_under_any_status() {
    let reply = |status: StatusCode| {
        move || (status, [(header::CONTENT_TYPE, "application/json")], LIST).into_response()
    };
    for status in [
        StatusCode::OK,
        StatusCode::BAD_REQUEST,
        StatusCode::NOT_FOUND,
        StatusCode::BAD_GATEWAY,
    ] {
        assert_eq!(answered(reply(status)).await.unwrap(), LIST, "{status}");
    }
    let framed = || {
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{}}"#;
        stream(format!(
            ": hello\r\n\r\ndata: {notification}\n\ndata: junk\n\nevent: message\ndata: {LIST}\n\n"
        ))
    };
    assert_eq!(answered(framed).await.unwrap(), LIST);
}

#[tokio::test]
async fn what_is_no_reply_is_named_and_judged() {
    type Case = (fn() -> Response, &'static str, bool, bool);
    let cases: [Case; 11] = [
        // answer, reason, a cause of ours, the upstream can have acted
        (
            || StatusCode::FOUND.into_response(),
            "redirect",
            false,
            true,
        ),
        (
            || ([(header::CONTENT_ENCODING, "gzip")], LIST).into_response(),
            "compressed",
            false,
            true,
        ),
        (
            || StatusCode::TOO_MANY_REQUESTS.into_response(),
            "throttled",
            true,
            false,
        ),
        (
            || StatusCode::UNAUTHORIZED.into_response(),
            "http_status",
            true,
            false,
        ),
        (
            || StatusCode::FORBIDDEN.into_response(),
            "http_status",
            true,
            false,
        ),
        (
            || StatusCode::NOT_FOUND.into_response(),
            "http_status",
            false,
            false,
        ),
        (
            || StatusCode::BAD_GATEWAY.into_response(),
            "http_status",
            false,
            true,
        ),
        (|| "x".repeat(5000).into_response(), "too_large", true, true),
        (
            || stream("data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n".repeat(50_000)),
            "too_large",
            true,
            true,
        ),
        (|| stream(String::new()), "stream_ended", false, true),
        (
            || stream("data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n".into()),
            "foreign_id",
            false,
            true,
        ),
    ];
    for (answer, reason, is_ours, may_have_acted) in cases {
        let failure = answered(answer).await.unwrap_err();
        assert_eq!(failure.reason(), reason);
        assert_eq!(failure.is_ours(), is_ours, "{reason}");
        assert_eq!(failure.may_have_acted(), may_have_acted, "{reason}");
    }
    let throttled =
        answered(|| (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "7")]).into_response());
    assert_eq!(throttled.await.unwrap_err().retry_after(), Some(7));
}

/// A proxy may say so of a request that its server has taken.
#[tokio::test]
async fn a_refusal_that_is_none_of_the_request_leaves_open_what_became_of_it() {
    for status in [408, 409, 425, 499, 500, 503] {
        let status = StatusCode::from_u16(status).unwrap();
        let app = Router::new().route("/mcp", post(async move || status));
        let address = mk_server(app).await;
        let failure = ask(&mk_active(&format!("http://{address}/mcp"))).await;
        assert!(failure.unwrap_err().may_have_acted(), "{status}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_the_upstream_s_and_reached_nobody() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let failure = ask(&mk_active(&format!("http://{address}/mcp")))
        .await
        .unwrap_err();
    assert_eq!(failure.reason(), "connect");
    assert!(!failure.is_ours() && !failure.may_have_acted());
}

/// Asked one after another, the last of them would wait for all that came before.
#[tokio::test]
async fn callers_of_an_upstream_that_does_not_say_what_it_speaks_share_one_question() {
    let asked = Arc::new(AtomicUsize::new(0));
    let app = {
        let asked = Arc::clone(&asked);
        let refusal = async move || {
            asked.fetch_add(1, Ordering::SeqCst);
            StatusCode::SERVICE_UNAVAILABLE
        };
        Router::new().route("/mcp", post(refusal))
    };
    let address = mk_server(app).await;
    let active = mk_active_of(&format!("http://{address}/mcp"), Protocol::Auto);
    for round in 1..=2 {
        // Polled in turn on one thread: all have come before the answer has.
        let callers = (0..32).map(|_| ask(&active));
        for outcome in futures::future::join_all(callers).await {
            assert_eq!(outcome.unwrap_err().reason(), "http_status");
        }
        assert_eq!(asked.load(Ordering::SeqCst), round);
    }
}

#[tokio::test]
async fn many_callers_share_few_fetches_each_begun_after_what_it_vouches_for() {
    const CALLERS: usize = 200;
    let (asked, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let app = {
        let (asked, gate) = (Arc::clone(&asked), Arc::clone(&gate));
        Router::new().route(
            "/mcp",
            post(async move || {
                asked.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                LIST
            }),
        )
    };
    let address = mk_server(app).await;
    let active = mk_active(&format!("http://{address}/mcp"));
    let upstream = mk_upstream(&active);
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (active, upstream) = (Arc::clone(&active), Arc::clone(&upstream));
            tokio::spawn(async move {
                let arrived = Instant::now();
                let contracts = &upstream.runtime.contracts;
                let list = contracts
                    .since(&upstream, &active.http, arrived)
                    .await
                    .unwrap();
                assert!(list.began >= arrived, "an older list was served");
                assert!(list.tools.get("echo").is_some());
            })
        })
        .collect();
    gate.add_permits(CALLERS);
    for caller in callers {
        caller.await.unwrap();
    }
    let fetches = asked.load(Ordering::SeqCst);
    assert!(fetches <= 4, "{fetches} fetches for {CALLERS} callers");
}

#[tokio::test]
async fn an_old_list_is_good_enough_for_a_call_that_says_so() {
    let asked = Arc::new(AtomicUsize::new(0));
    let app = {
        let asked = Arc::clone(&asked);
        Router::new().route(
            "/mcp",
            post(async move || {
                asked.fetch_add(1, Ordering::SeqCst);
                LIST
            }),
        )
    };
    let address = mk_server(app).await;
    let active = mk_active(&format!("http://{address}/mcp"));
    let upstream = mk_upstream(&active);
    let contracts = &upstream.runtime.contracts;
    let hour = Duration::from_hours(1);
    for _ in 0..3 {
        contracts
            .within(&upstream, &active.http, hour)
            .await
            .unwrap();
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    contracts
        .since(&upstream, &active.http, Instant::now())
        .await
        .unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_list_refused_for_our_credential_says_nothing_of_the_contract() {
    let refused = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"token expired"}}"#;
    for (status, is_ours) in [
        (StatusCode::UNAUTHORIZED, true),
        (StatusCode::FORBIDDEN, true),
        (StatusCode::TOO_MANY_REQUESTS, true),
        (StatusCode::OK, false),
        (StatusCode::SERVICE_UNAVAILABLE, false),
    ] {
        let app = Router::new().route("/mcp", post(async move || (status, refused)));
        let address = mk_server(app).await;
        let active = mk_active(&format!("http://{address}/mcp"));
        let upstream = mk_upstream(&active);
        let contracts = &upstream.runtime.contracts;
        let fetched = contracts.since(&upstream, &active.http, Instant::now());
        let error = fetched.await.unwrap_err();
        let found = matches!(error, super::contracts::Error::Ours(_));
        assert_eq!(found, is_ours, "{status}: {error:?}");
    }
}

#[tokio::test]
async fn a_task_is_told_to_stop_once_at_a_time() {
    let cancels = Cancels::default();
    let task = |name: &str| hangar_ledger::TaskId::try_from(name.to_owned()).unwrap();
    let first = cancels.begin("acme", &task("a")).unwrap();
    let again = cancels.begin("acme", &task("a"));
    assert_eq!(again.unwrap_err(), NoPlace::Begun);
    assert!(cancels.begin("acme", &task("b")).is_ok());
    drop(first);
    assert!(cancels.begin("acme", &task("a")).is_ok());
    // Many wait, and none is lost; nor does another tenant wait with them.
    let begin = |tenant: &str, n| cancels.begin(tenant, &task(&format!("{tenant}-{n}")));
    let waiting: Vec<_> = (0..300).map(|n| begin("acme", n).unwrap()).collect();
    let mut turns = Vec::new();
    for cancelling in &waiting[..super::MAX_CANCELS] {
        turns.push(cancelling.turn().await.unwrap());
    }
    let mut next = Box::pin(waiting[super::MAX_CANCELS].turn());
    assert!(futures::poll!(&mut next).is_pending());
    assert!(begin("globex", 0).unwrap().turn().await.is_some());
    turns.pop();
    assert!(next.await.is_some());
    let more: Vec<_> = (300..).map_while(|n| begin("acme", n).ok()).collect();
    assert_eq!(waiting.len() + more.len(), super::MAX_WAITING);
    assert_eq!(begin("acme", 0).unwrap_err(), NoPlace::Begun);
    let full = cancels.begin("acme", &task("late")).unwrap_err();
    assert_eq!(full, NoPlace::Full);
}
