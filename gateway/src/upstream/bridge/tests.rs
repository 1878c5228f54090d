//! The session that a task was born in, at a server on loopback.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hangar_ledger::{Owner, Principal, TenantRef};
use hangar_relay::headers;
use hangar_wire::Protocol;
use http::HeaderMap;
use tokio::sync::mpsc;

use super::*;
use crate::config::{Active, Upstream};
use crate::upstream::session::{IDLE, SESSION_ID};
use crate::upstream::tests::{mk_active_of, mk_server, mk_upstream};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#;
/// Only a test that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a server of 2025-11-25 answers.
fn answer(body: &str, number: usize) -> Response {
    let id = envelope::id_of(body).map_or("null", RawValue::get);
    let result = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    let tasks = r#"{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"tools":{"call":{}}}}}}"#;
    if body.contains(r#""initialize""#) {
        return ([(SESSION_ID, format!("s-{number}"))], result(tasks)).into_response();
    }
    let answer = if body.contains("tools/list") {
        result(r#"{"tools":[{"name":"slow","execution":{"taskSupport":"optional"}}]}"#)
    } else if body.contains(r#""task":{"ttl":1000}"#) {
        result(r#"{"task":{"taskId":"t","status":"working","ttl":60000}}"#)
    } else {
        return StatusCode::ACCEPTED.into_response();
    };
    answer.into_response()
}

/// Calls the tool, which runs as a task.
async fn call(active: &Active, upstream: &Upstream, owner: &Owner) {
    let id = rewrite::numeric_id(1);
    let sent = exchange::send(Exchange {
        http: &active.http,
        upstream,
        headers: headers::upstream(Method::ToolsCall, Some("slow")),
        body: Bytes::from_static(CALL.as_bytes()),
        id: &id,
        owner: Some(owner),
        room: active.http.own(),
        deadline: exchange::deadline(upstream, PATIENCE),
    });
    let message = sent.await.unwrap().message;
    let text = std::str::from_utf8(&message).unwrap();
    assert!(text.contains(r#""resultType":"task""#), "{text}");
}

/// Where the ttl of the task is longer than its entry may stay, the entry's retention counts.
#[tokio::test]
async fn the_session_of_a_task_is_kept_as_long_as_its_entry_may_stay() {
    let (tell, mut ended) = mpsc::unbounded_channel();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&begun);
    let end = async move |headers: HeaderMap| {
        let id = headers[SESSION_ID].to_str().unwrap_or_default().to_owned();
        let _ = tell.send(id);
    };
    let take = async move |body: String| {
        let is_first = body.contains(r#""initialize""#);
        answer(
            &body,
            count.fetch_add(usize::from(is_first), Ordering::SeqCst),
        )
    };
    let app = Router::new().route("/mcp", post(take).delete(end));
    let address = mk_server(app).await;
    let active = mk_active_of(&format!("http://{address}/mcp"), Protocol::V2025_11_25);
    let upstream = mk_upstream(&active);
    let contracts = &upstream.runtime.contracts;
    let fetched = contracts.since(&upstream, &active.http, Instant::now());
    assert!(fetched.await.unwrap().tools.get("slow").is_some());
    let tenant = TenantRef {
        namespace: "default".into(),
        tenant: "acme".into(),
    };
    let owner = Owner::new(tenant, Some(Principal::api_key("alice")));
    let before = Instant::now();
    call(&active, &upstream, &owner).await;
    let retention = Duration::from_millis(upstream.object.tasks.retention_ms);
    let sessions = &upstream.runtime.sessions;
    let mut next = async || {
        let ended = tokio::time::timeout(PATIENCE, ended.recv()).await;
        ended.expect("no session was ended").unwrap()
    };
    sessions.sweep(before + IDLE + retention.saturating_sub(Duration::from_nanos(1)));
    assert_eq!(next().await, "s-0", "the one for contracts");
    call(&active, &upstream, &owner).await;
    assert_eq!(begun.load(Ordering::SeqCst), 2, "none was begun again");
    sessions.sweep(Instant::now() + IDLE + retention);
    assert_eq!(next().await, "s-1");
}
