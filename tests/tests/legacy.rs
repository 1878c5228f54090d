//! MCP 2025-11-25 on either side of the gateway, and on both.

#![cfg(test)]

use hangar_tests::client::{Client, Reply, legacy_headers};
use hangar_tests::envelope::Envelope;
use hangar_tests::scripted::{Answer, Framing, Gate, Legacy};
use hangar_tests::sse;
use hangar_tests::stack::{ALICE, BOB, Stack};
use hangar_tests::wait;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

const UNKNOWN_METHOD: i64 = -32601;
const MISSING_CAPABILITY: i64 = -32021;
const UNAVAILABLE: i64 = -31001;
const DENIED: i64 = -31004;
const UPSTREAM_PROTOCOL: i64 = -31008;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Modern,
    Legacy,
}

async fn start() -> (Stack, Legacy, Client) {
    let stack = Stack::start().await.unwrap();
    let legacy = Legacy::teach(&stack.upstream);
    let alice = stack.client(ALICE);
    (stack, legacy, alice)
}

async fn ask(client: &Client, era: Era, method: &str, params: Value) -> Reply {
    match era {
        Era::Modern => client.send(&Envelope::new(method, params)).await.unwrap(),
        Era::Legacy => client.send_legacy(method, params).await.unwrap(),
    }
}

fn echo(text: &str) -> Value {
    json!({"name": "echo", "arguments": {"text": text}})
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

/// What a modern upstream answers to the methods that it has no answer of its own for.
fn modern_results() -> Vec<(&'static str, Value)> {
    let complete = |mut result: Value| {
        result["resultType"] = json!("complete");
        result["ttlMs"] = json!(5);
        result["cacheScope"] = json!("public");
        result
    };
    vec![
        (
            "prompts/list",
            complete(json!({"prompts": [{"name": "greet"}]})),
        ),
        ("prompts/get", complete(json!({"messages": []}))),
        (
            "resources/list",
            complete(json!({"resources": [{"uri": "file:///a", "name": "a"}]})),
        ),
        (
            "resources/templates/list",
            complete(json!({"resourceTemplates": []})),
        ),
        (
            "resources/read",
            complete(json!({"contents": [{"uri": "file:///a", "text": "A"}]})),
        ),
        (
            "completion/complete",
            complete(json!({"completion": {"values": ["p"]}})),
        ),
    ]
}

/// Every method with its params and a member that its result must have.
fn methods() -> Vec<(&'static str, Value, &'static str)> {
    let reference = json!({"type": "ref/prompt", "name": "greet"});
    let argument = json!({"name": "x", "value": "p"});
    vec![
        ("tools/list", json!({}), "tools"),
        ("tools/call", echo("hi"), "content"),
        ("prompts/list", json!({}), "prompts"),
        ("prompts/get", json!({"name": "greet"}), "messages"),
        ("resources/list", json!({}), "resources"),
        ("resources/templates/list", json!({}), "resourceTemplates"),
        ("resources/read", json!({"uri": "file:///a"}), "contents"),
        (
            "completion/complete",
            json!({"ref": reference, "argument": argument}),
            "completion",
        ),
    ]
}

#[tokio::test]
async fn both_eras_of_client_reach_both_eras_of_upstream() {
    for upstream in [Era::Modern, Era::Legacy] {
        let stack = Stack::start().await.unwrap();
        match upstream {
            Era::Legacy => {
                Legacy::teach(&stack.upstream);
            }
            Era::Modern => {
                for (method, result) in modern_results() {
                    stack
                        .upstream
                        .script(method, move |_| Answer::result(&result));
                }
            }
        }
        let own = stack.client(ALICE);
        let tenant = stack.gateway.client().with_key(ALICE);
        for client in [Era::Modern, Era::Legacy] {
            for (method, params, member) in methods() {
                let case = format!("{client:?} client, {upstream:?} upstream: {method}");
                let reply = ask(&own, client, method, params).await;
                assert_eq!(reply.status, 200, "{case}");
                assert_eq!(reply.header("mcp-session-id"), None, "{case}");
                let message = reply.message().unwrap();
                let result = &message["result"];
                assert!(!result[member].is_null(), "{case}: {message}");
                let complete = json!("complete");
                match client {
                    Era::Modern => {
                        assert_eq!(
                            (&message["id"], &result["resultType"]),
                            (&json!(1), &complete)
                        );
                        let is_cacheable = member.ends_with('s') && member != "messages";
                        if is_cacheable && method != "tools/call" {
                            assert_eq!(result["cacheScope"], "private", "{case}");
                            assert!(result["ttlMs"].is_u64(), "{case}");
                        }
                    }
                    Era::Legacy => {
                        assert_eq!(message["id"], 7, "{case}");
                        for modern in ["resultType", "ttlMs", "cacheScope"] {
                            assert!(result[modern].is_null(), "{case}: {message}");
                        }
                    }
                }
            }
            let name = "reports__echo";
            let params = json!({"name": name, "arguments": {"text": "hi"}});
            let reply = ask(&tenant, client, "tools/call", params).await;
            assert_eq!(text_of(&reply.result().unwrap()), "hi");
        }
    }
}

#[tokio::test]
async fn initialize_is_answered_from_either_era_without_a_session() {
    for upstream in [Era::Modern, Era::Legacy] {
        let stack = Stack::start().await.unwrap();
        if upstream == Era::Legacy {
            Legacy::teach(&stack.upstream);
        }
        for client in [stack.client(ALICE), stack.gateway.client().with_key(ALICE)] {
            for (wanted, spoken) in [
                ("2025-11-25", "2025-11-25"),
                ("2025-06-18", "2025-06-18"),
                ("2026-07-28", "2025-11-25"),
                ("2024-11-05", "2025-11-25"),
            ] {
                let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": wanted, "capabilities": {"tasks": {}},
                    "clientInfo": {"name": "c", "version": "0"},
                }});
                let headers = &legacy_headers()[..2];
                let reply = client.post(headers, body.to_string().into()).await.unwrap();
                assert_eq!(reply.header("mcp-session-id"), None);
                let result = reply.result().unwrap();
                assert_eq!(result["protocolVersion"], spoken);
                assert_eq!(result["capabilities"]["tools"], json!({}));
                assert!(result["capabilities"]["tasks"].is_null());
                assert!(result["capabilities"]["extensions"].is_null());
                assert_eq!(result["serverInfo"]["name"], "hangar-gateway");
                let instructions = match upstream {
                    Era::Legacy => json!("Mind the age."),
                    Era::Modern => Value::Null,
                };
                assert_eq!(result["instructions"], instructions);
            }
            let accepted = client
                .post(&legacy_headers(), INITIALIZED.into())
                .await
                .unwrap();
            assert_eq!((accepted.status.as_u16(), accepted.body.len()), (202, 0));
        }
        // What was taken without an answer was not refused.
        let scrape = stack.gateway.scrape().await.unwrap();
        assert!(scrape.sum("hangar_refused_requests_total", &[]) < 1.0);
    }
}

#[tokio::test]
async fn what_needs_a_session_is_refused_in_words() {
    let (_stack, _, alice) = start().await;
    assert_eq!(
        alice
            .send_legacy("ping", json!({}))
            .await
            .unwrap()
            .result()
            .unwrap(),
        json!({})
    );
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(
            alice.bare(method).await.unwrap().status,
            StatusCode::METHOD_NOT_ALLOWED
        );
    }
    for method in [
        "tasks/get",
        "tasks/list",
        "logging/setLevel",
        "resources/subscribe",
        "subscriptions/listen",
        "x",
    ] {
        let reply = alice
            .send_legacy(method, json!({"taskId": "t"}))
            .await
            .unwrap();
        assert_eq!(reply.status, 200, "{method}: 404 would end a session");
        assert_eq!(reply.error_code().unwrap(), UNKNOWN_METHOD, "{method}");
    }
    let set = alice
        .send_legacy("logging/setLevel", json!({"level": "info"}))
        .await
        .unwrap();
    let message = set.message().unwrap();
    assert!(
        message["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no sessions")
    );
    let unauthenticated = alice
        .with_key("wrong")
        .send_legacy("ping", json!({}))
        .await
        .unwrap();
    assert_eq!(unauthenticated.status, 401);
}

/// An old client's `task` asks a later upstream for nothing, and an old upstream for nothing either:
/// nobody governs such a task.
#[tokio::test]
async fn no_client_of_this_era_is_handed_a_task() {
    let stack = Stack::start().await.unwrap();
    let alice = stack.client(ALICE);
    let call = json!({"name": "slow", "arguments": {}, "task": {"ttl": 1000}});
    let result = alice
        .send_legacy("tools/call", call)
        .await
        .unwrap()
        .result()
        .unwrap();
    assert_eq!(text_of(&result), "done");
    let asking = json!({"name": "ask", "arguments": {}, "task": {"ttl": 1000}});
    let refused = alice.send_legacy("tools/call", asking).await.unwrap();
    assert_eq!(
        (refused.status.as_u16(), refused.error_code().unwrap()),
        (200, -32021)
    );
    let asking = json!({"resultType": "input_required", "requestState": "s"});
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&asking));
    let refused = alice.send_legacy("tools/call", echo("x")).await.unwrap();
    assert_eq!(refused.error_code().unwrap(), DENIED);
    let handle = json!({"resultType": "task", "taskId": "t", "status": "working",
        "createdAt": "2026-12-01T06:00:00Z", "lastUpdatedAt": "2026-12-01T06:00:00Z", "ttlMs": 1});
    stack
        .upstream
        .enqueue("tools/call", Answer::result(&handle));
    let refused = alice.send_legacy("tools/call", echo("x")).await.unwrap();
    assert!(refused.error_code().is_ok() && refused.message().unwrap()["result"].is_null());
    assert!(
        stack
            .export()
            .await
            .unwrap()
            .lines()
            .all(|line| !line.contains("TaskCreated"))
    );

    let (stack, legacy, alice) = start().await;
    for era in [Era::Modern, Era::Legacy] {
        let mut params = echo("now");
        params["task"] = json!({"ttl": 1000});
        let result = ask_result(&alice, era, params).await;
        assert_eq!(text_of(&result), "now", "{era:?}");
    }
    let nested = || Answer::result(&json!({"task": {"taskId": "t", "status": "working"}}));
    legacy.within(&stack.upstream, "tools/call", move |_| nested());
    for era in [Era::Modern, Era::Legacy] {
        let reply = ask(&alice, era, "tools/call", echo("x")).await;
        assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{era:?}");
    }
}

async fn ask_result(client: &Client, era: Era, params: Value) -> Value {
    ask(client, era, "tools/call", params)
        .await
        .result()
        .unwrap()
}

/// A client of the later revision is told what it lacks, one of this revision that there is nothing.
#[tokio::test]
async fn a_tool_that_is_a_task_only_is_for_clients_of_tasks() {
    let (stack, _, alice) = start().await;
    for (era, names) in [
        (Era::Modern, vec!["echo", "strict"]),
        (Era::Legacy, vec!["echo"]),
    ] {
        let listed = ask(&alice, era, "tools/list", json!({})).await;
        let tools = listed.result().unwrap()["tools"].take();
        let tools = tools.as_array().unwrap();
        let listed: Vec<_> = tools.iter().map(|tool| &tool["name"]).collect();
        assert_eq!(listed, names, "{era:?}");
    }
    let reply = alice.call_sync("strict", json!({})).await.unwrap();
    assert_eq!(reply.outcome().unwrap(), (400, MISSING_CAPABILITY));
    let call = json!({"name": "strict", "arguments": {}, "task": {"ttl": 1000}});
    let reply = alice.send_legacy("tools/call", call).await.unwrap();
    let message = reply.message().unwrap();
    assert_eq!(message["error"]["code"], DENIED);
    let words = message["error"]["message"].as_str().unwrap();
    assert!(words.contains("as a task only"), "{words}");
    assert_eq!(stack.upstream.count("tools/call"), 0);
}

/// A gateway forwarded its client's session header to upstreams, which refused a session that they
/// had never issued. And one session for all would mix what owners do.
#[tokio::test]
async fn sessions_are_the_owners_and_no_clients_header_crosses() {
    let (stack, legacy, alice) = start().await;
    let bob = stack.client(BOB);
    for client in [&alice, &bob] {
        let mut headers = legacy_headers();
        for (name, value) in [
            ("mcp-session-id", "stolen"),
            ("last-event-id", "stolen"),
            ("cookie", "stolen"),
            ("x-forwarded-for", "stolen"),
        ] {
            headers.push((name.to_owned(), value.to_owned()));
        }
        for _ in 0..2 {
            let body =
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": echo("a")});
            let reply = client
                .post(&headers, body.to_string().into())
                .await
                .unwrap();
            assert_eq!(text_of(&reply.result().unwrap()), "a");
            assert_eq!(reply.header("mcp-session-id"), None);
        }
    }
    let calls = stack.upstream.seen_of("tools/call");
    let sessions: Vec<_> = calls
        .iter()
        .map(|seen| seen.header("mcp-session-id").unwrap())
        .collect();
    assert_eq!(sessions[0], sessions[1]);
    assert_eq!(sessions[2], sessions[3]);
    assert_ne!(sessions[0], sessions[2]);
    assert!(
        stack
            .upstream
            .seen()
            .iter()
            .all(|seen| !seen.contains("stolen"))
    );
    // The contracts are the gateway's to fetch.
    assert_eq!(legacy.begun(), 3);
    let ids: Vec<_> = calls
        .iter()
        .map(|seen| seen.message()["id"].clone())
        .collect();
    assert_ne!(ids[0], ids[1], "an id is used once in a session");
}

#[tokio::test]
async fn a_lost_session_is_begun_again_once_and_the_call_runs_once() {
    let (stack, legacy, alice) = start().await;
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("a")).await),
        "a"
    );
    legacy.forget();
    let before = legacy.begun();
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("b")).await),
        "b"
    );
    assert_eq!(legacy.begun(), before + 1);
    let seen = stack.upstream.count("tools/call");
    assert_eq!(seen, 3, "one in vain, and none was executed twice");
    // An upstream that loses every session at once is not asked for ever.
    let gone =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    stack.upstream.script("tools/call", move |_| {
        Answer::raw(gone).status(StatusCode::NOT_FOUND)
    });
    let reply = ask(&alice, Era::Modern, "tools/call", echo("c")).await;
    assert!(reply.error_code().is_ok());
    assert_eq!(stack.upstream.count("tools/call"), seen + 2);
}

/// Each probe left a session behind at a stateful server.
#[tokio::test]
async fn a_session_that_the_probe_began_is_ended() {
    let (stack, _, alice) = start().await;
    let refusal = Answer::raw("{}").status(StatusCode::BAD_REQUEST);
    let refusal = refusal.header("mcp-session-id", "orphan");
    stack.upstream.enqueue("server/discover", refusal);
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("a")).await),
        "a"
    );
    stack.upstream.arrived("DELETE /mcp", 1).await.unwrap();
    let ended = stack.upstream.seen_of("DELETE /mcp").remove(0);
    assert_eq!(ended.header("mcp-session-id"), Some("orphan"));
    assert_eq!(stack.upstream.count("server/discover"), 1, "asked once");
}

#[tokio::test]
async fn an_outage_is_no_verdict_and_a_refusal_of_any_code_is_one() {
    let (stack, _, alice) = start().await;
    for status in [StatusCode::SERVICE_UNAVAILABLE, StatusCode::UNAUTHORIZED] {
        stack
            .upstream
            .enqueue("server/discover", Answer::raw("").status(status));
        let reply = ask(&alice, Era::Modern, "tools/call", echo("a")).await;
        assert!(reply.error_code().is_ok(), "{status}");
        assert_eq!(stack.upstream.count("initialize"), 0, "{status}");
    }
    stack
        .upstream
        .enqueue("server/discover", Answer::error(-32000, "no session"));
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("a")).await),
        "a"
    );
}

/// One question that hung held up all callers of all tenants for as long as its own caller waited.
#[tokio::test]
async fn an_upstream_that_does_not_say_what_it_speaks_is_not_waited_for_without_end() {
    let stack = Stack::start_with(|object| match object.value()["kind"].as_str() {
        Some("McpUpstream") => object.set("/spec/limits/requestTimeout", json!("120s")),
        _ => object,
    });
    let stack = stack.await.unwrap();
    let never = Gate::new();
    let hung = never.clone();
    let held = move |_: &_| Answer::built_in().held(&hung);
    stack.upstream.script("server/discover", held);
    let (alice, bob) = (stack.client(ALICE), stack.client(BOB));
    let (first, second) = tokio::join!(
        ask(&alice, Era::Modern, "prompts/list", json!({})),
        ask(&bob, Era::Modern, "prompts/list", json!({})),
    );
    for reply in [first, second] {
        assert_eq!(reply.error_code().unwrap(), UNAVAILABLE);
    }
    assert_eq!(
        stack.upstream.count("server/discover"),
        1,
        "one question for both"
    );
    assert_eq!(stack.upstream.count("prompts/list"), 0);
    never.open();
}

#[tokio::test]
async fn a_named_protocol_is_not_asked_for() {
    for (protocol, initialized) in [("2026-07-28", 0), ("2025-11-25", 2)] {
        let stack = Stack::start_with(|object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/spec/protocol", json!(protocol)),
            _ => object,
        });
        let stack = stack.await.unwrap();
        if protocol == "2025-11-25" {
            Legacy::teach(&stack.upstream);
        }
        let alice = stack.client(ALICE);
        assert_eq!(
            text_of(&ask_result(&alice, Era::Modern, echo("a")).await),
            "a"
        );
        assert_eq!(stack.upstream.count("server/discover"), 0, "{protocol}");
        assert_eq!(
            stack.upstream.count("initialize"),
            initialized,
            "{protocol}"
        );
    }
}

#[tokio::test]
async fn an_upstream_that_is_upgraded_or_rolled_back_goes_on() {
    let (stack, _, alice) = start().await;
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("old")).await),
        "old"
    );
    for method in ["server/discover", "initialize", "tools/list", "tools/call"] {
        stack.upstream.unscript(method);
    }
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("new")).await),
        "new"
    );
    Legacy::teach(&stack.upstream);
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("old")).await),
        "old"
    );
}

/// The answer to a question could only be given while the call is held open, by the one replica
/// that holds it: the upstream is told no, and its own words go on to the client.
#[tokio::test]
async fn a_question_is_refused_to_the_upstream_and_its_answer_goes_on() {
    let (stack, legacy, alice) = start().await;
    legacy.within(&stack.upstream, "tools/call", |seen| {
        let id = seen.message()["id"].clone();
        let question =
            json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {}});
        let ping = json!({"jsonrpc": "2.0", "id": 5, "method": "ping"});
        let reply = json!({"jsonrpc": "2.0", "id": id, "result": {
            "content": [{"type": "text", "text": "cannot ask"}], "isError": true,
        }});
        let events = [question, ping, reply].map(|message| sse::event(&message.to_string()));
        Answer::raw(events.concat()).framed(Framing::Sse)
    });
    let result = ask_result(&alice, Era::Modern, echo("a")).await;
    assert_eq!(text_of(&result), "cannot ask");
    let told = stack.upstream.seen_of("POST /mcp");
    let told: Vec<_> = told
        .iter()
        .map(hangar_tests::scripted::Seen::message)
        .collect();
    assert_eq!(
        (&told[0]["id"], &told[0]["error"]["code"]),
        (&json!("q"), &json!(UNKNOWN_METHOD))
    );
    assert_eq!(
        (&told[1]["id"], &told[1]["result"]),
        (&json!(5), &json!({}))
    );
}

/// One that asks without end would hold its call, and be answered, for as long as it likes.
#[tokio::test]
async fn an_upstream_that_asks_without_end_is_given_up() {
    let (stack, legacy, alice) = start().await;
    for (questions, is_answered) in [(32, true), (33, false)] {
        let before = stack.upstream.count("POST /mcp");
        legacy.within(&stack.upstream, "tools/call", move |seen| {
            let id = seen.message()["id"].clone();
            let ask = |n: usize| json!({"jsonrpc": "2.0", "id": n, "method": "roots/list"});
            let reply = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
            let messages = (0..questions).map(ask).chain([reply]);
            let events: String = messages.map(|one| sse::event(&one.to_string())).collect();
            Answer::raw(events).framed(Framing::Sse)
        });
        let reply = ask(&alice, Era::Modern, "tools/call", echo("a")).await;
        assert_eq!(reply.result().is_ok(), is_answered, "{reply:?}");
        // Only the cancel of what was given up comes beside the answers.
        assert_eq!(stack.upstream.count("POST /mcp") - before, 32);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(text.contains("too_many_questions"), !is_answered, "{text}");
    }
}

/// The refusal of an answer was taken for the loss of the session that the call was running in, and
/// the call was sent again in another.
#[tokio::test]
async fn a_refused_answer_to_a_question_never_repeats_the_call() {
    for status in [StatusCode::BAD_REQUEST, StatusCode::NOT_FOUND] {
        for (goes_on, under) in [
            (true, StatusCode::OK),
            (false, StatusCode::OK),
            (false, status),
        ] {
            let case = format!("{status}, goes on: {goes_on}, under {under}");
            let (stack, legacy, alice) = start().await;
            legacy.within(&stack.upstream, "tools/call", move |seen| {
                let reply = json!({"jsonrpc": "2.0", "id": seen.message()["id"],
                    "result": {"content": [{"type": "text", "text": "charged"}]}});
                let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                    "params": {}});
                let mut events = sse::event(&question.to_string());
                if goes_on {
                    events.push_str(&sse::event(&reply.to_string()));
                }
                Answer::raw(events).framed(Framing::Sse).status(under)
            });
            let refusal = move |_: &_| Answer::raw("").status(status);
            legacy.within(&stack.upstream, "POST /mcp", refusal);
            let reply = ask(&alice, Era::Modern, "tools/call", echo("a")).await;
            assert_eq!(stack.upstream.count("POST /mcp"), 1, "{case}");
            assert_eq!(stack.upstream.count("tools/call"), 1, "{case}");
            if goes_on {
                assert_eq!(text_of(&reply.result().unwrap()), "charged", "{case}");
            } else {
                assert_eq!(reply.error_code().unwrap(), UPSTREAM_PROTOCOL, "{case}");
                let cancelled = stack.upstream.arrived("notifications/cancelled", 1);
                cancelled.await.unwrap();
            }
            // The session is the next call's, and ends with its upstream.
            assert_eq!(
                legacy.begun(),
                2,
                "{case}: one of the gateway's and one of alice's"
            );
            let renamed = stack.rewrite(|object| match object.value()["kind"].as_str() {
                Some("McpUpstream") => object.set("/metadata/name", json!("other")),
                _ => object,
            });
            renamed.unwrap();
            wait::eventually("sessions ended", async || wait::same(&legacy.live(), &0))
                .await
                .unwrap();
        }
    }
}

/// Clients of one owner count their tokens from the same number: in one session they must differ.
#[tokio::test]
async fn progress_is_told_under_the_clients_own_token() {
    let (stack, legacy, alice) = start().await;
    legacy.within(&stack.upstream, "tools/call", |seen| {
        let (message, params) = (seen.message(), seen.params());
        let token = &params["_meta"]["progressToken"];
        assert_eq!(token, &message["id"]);
        let progress = |token: &Value| {
            json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1}})
        };
        let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}});
        let events = [progress(token), progress(&json!(999)), reply];
        let events = events.map(|message| sse::event(&message.to_string()));
        Answer::raw(events.concat()).framed(Framing::Sse)
    });
    for era in [Era::Modern, Era::Legacy] {
        let mut params = echo("a");
        params["_meta"] = json!({"progressToken": "mine"});
        let reply = match era {
            Era::Modern => {
                let call =
                    Envelope::new("tools/call", echo("a")).meta("progressToken", json!("mine"));
                alice.send(&call).await.unwrap()
            }
            Era::Legacy => alice.send_legacy("tools/call", params).await.unwrap(),
        };
        assert_eq!(
            reply.header("content-type"),
            Some("text/event-stream"),
            "{era:?}"
        );
        let events = sse::events(std::str::from_utf8(&reply.body).unwrap());
        let events: Vec<Value> = events
            .iter()
            .map(|event| serde_json::from_str(event).unwrap())
            .collect();
        assert_eq!(events.len(), 2, "{era:?}: {events:?}");
        assert_eq!(events[0]["params"]["progressToken"], "mine");
        let result_type = match era {
            Era::Modern => json!("complete"),
            Era::Legacy => Value::Null,
        };
        assert_eq!(events[1]["result"]["resultType"], result_type);
    }
}

/// Here a closed connection is no cancel: the upstream went on with work that nobody waited for.
#[tokio::test]
async fn a_client_that_leaves_cancels_at_the_upstream() {
    let (stack, legacy, alice) = start().await;
    let gate = Gate::new();
    let held = gate.clone();
    legacy.within(&stack.upstream, "tools/call", move |_| {
        Answer::result(&json!({"content": []})).held(&held)
    });
    let call = tokio::spawn(async move { alice.send_legacy("tools/call", echo("a")).await });
    gate.reached(1).await.unwrap();
    call.abort();
    stack
        .upstream
        .arrived("notifications/cancelled", 1)
        .await
        .unwrap();
    let cancelled = stack.upstream.seen_of("notifications/cancelled").remove(0);
    let called = stack.upstream.seen_of("tools/call").remove(0);
    assert_eq!(cancelled.params()["requestId"], called.message()["id"]);
    assert_eq!(
        cancelled.header("mcp-session-id"),
        called.header("mcp-session-id")
    );
    gate.open();
}

#[tokio::test]
async fn sessions_of_an_upstream_that_goes_are_ended() {
    let (stack, legacy, alice) = start().await;
    assert_eq!(
        text_of(&ask_result(&alice, Era::Modern, echo("a")).await),
        "a"
    );
    assert_eq!(legacy.live(), 2);
    stack
        .rewrite(|object| match object.value()["kind"].as_str() {
            Some("McpUpstream") => object.set("/metadata/name", json!("other")),
            _ => object,
        })
        .unwrap();
    wait::eventually("sessions ended", async || wait::same(&legacy.live(), &0))
        .await
        .unwrap();
}
