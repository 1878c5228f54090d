//! Two ways of one exchange, held against each other: the answers, and what reached the upstream.

use std::collections::BTreeMap;

use super::upstream::Arrived;
use crate::corpus::Answer;
use crate::json::{self, ABSENT, Apart, apart};

/// What came of an exchange one way.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) answer: Answer,
    pub(super) arrived: Option<Arrived>,
}

/// An answer as its members.
struct Said {
    framing: String,
    notes: String,
    reply: Option<String>,
    text: Option<String>,
}

/// Headers of an answer that mean something to MCP, `Content-Type` apart.
const ANSWERED: [&str; 2] = ["allow", "mcp-session-id"];
/// Headers of a request that the protocol says must arrive, and the credential, that must not.
const SENT: [&str; 5] = [
    "accept",
    "authorization",
    "content-type",
    "last-event-id",
    "mcp-",
];

/// The name by which the gateway goes.
const OURSELVES: &str = "hangar-gateway";

/// Every difference.
pub(super) fn differences(direct: &Way, through: &Way) -> Vec<Apart> {
    let mut found = answers(direct, through);
    found.extend(arrivals(direct.arrived.as_ref(), through.arrived.as_ref()));
    if through.answer.is_refusal() {
        // What the gateway refuses by itself goes no further.
        for apart in found.iter_mut().filter(|apart| apart.path == "sent") {
            "sent to be refused".clone_into(&mut apart.path);
        }
    }
    found
}

fn answers(direct: &Way, through: &Way) -> Vec<Apart> {
    let (one, other) = (&direct.answer, &through.answer);
    let mut found = texts("status", &one.status.to_string(), &other.status.to_string());
    let header = |answer: &Answer, name| answer.headers.get(name).cloned().unwrap_or_else(absent);
    for name in ANSWERED {
        found.extend(texts(name, &header(one, name), &header(other, name)));
    }
    let (one, other) = (Said::of(one), Said::of(other));
    found.extend(texts("framing", &one.framing, &other.framing));
    found.extend(under("notes", apart(&one.notes, &other.notes)));
    let text = |text: &Option<String>| text.clone().unwrap_or_else(absent);
    found.extend(texts("text", &text(&one.text), &text(&other.text)));
    // What the upstream never heard of, the gateway has answered by itself.
    let reply = if through.arrived.is_none() {
        "own reply"
    } else {
        "reply"
    };
    found.extend(under(reply, apart(&text(&one.reply), &text(&other.reply))));
    found
}

fn arrivals(one: Option<&Arrived>, other: Option<&Arrived>) -> Vec<Apart> {
    let (one, other) = match (one, other) {
        (Some(one), Some(other)) => (one, other),
        (None, None) => return Vec::new(),
        (one, other) => {
            let word = |arrived: Option<_>| if arrived.is_some() { "arrived" } else { ABSENT };
            return texts("sent", word(one.map(drop)), word(other.map(drop)));
        }
    };
    if !is_own(&one.body) && is_own(&other.body) {
        // It asks by itself, and so in its own name: only what is asked for is the client's.
        let mut found = texts("sent", "the client's", "the gateway's own");
        found.extend(under(
            "sent params",
            apart(&asked(&one.body), &asked(&other.body)),
        ));
        return found;
    }
    let mut found = under("sent", apart(&one.body, &other.body));
    let headers = |arrived: &Arrived| -> BTreeMap<String, String> {
        let headers = arrived.headers.iter();
        let wanted = |name: &str| SENT.iter().any(|sent| name.starts_with(sent));
        let wanted = headers.filter(|(name, _)| wanted(name));
        wanted
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let (one, other) = (headers(one), headers(other));
    let mut names: Vec<_> = one.keys().chain(other.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let value =
            |headers: &BTreeMap<String, String>| headers.get(name).cloned().unwrap_or_else(absent);
        found.extend(texts(
            &format!("sent header {name}"),
            &value(&one),
            &value(&other),
        ));
    }
    found
}

/// Whether the gateway asks.
fn is_own(body: &str) -> bool {
    let params = json::member(body, "params");
    let meta = params.and_then(|params| json::member(&params, "_meta"));
    meta.is_some_and(|meta| meta.contains(OURSELVES))
}

/// The `params`, without `_meta`.
fn asked(body: &str) -> String {
    let params = json::member(body, "params");
    params.map_or_else(absent, |params| json::without(&params, "_meta"))
}

fn texts(path: &str, one: &str, other: &str) -> Vec<Apart> {
    if one == other {
        return Vec::new();
    }
    vec![Apart {
        path: path.to_owned(),
        one: one.to_owned(),
        other: other.to_owned(),
    }]
}

fn under(root: &str, found: Vec<Apart>) -> Vec<Apart> {
    let rooted = found.into_iter().map(|apart| Apart {
        path: format!("{root}{}", apart.path),
        ..apart
    });
    rooted.collect()
}

fn absent() -> String {
    ABSENT.to_owned()
}

// === impl Said ===

impl Said {
    fn of(answer: &Answer) -> Self {
        let mut messages = answer.messages();
        let is_reply = |message: &String| json::member(message, "method").is_none();
        let reply = messages.pop_if(|last| is_reply(last));
        let kind = answer
            .headers
            .get("content-type")
            .map_or("", String::as_str);
        let kind = kind.split(';').next().unwrap_or_default().trim();
        let is_empty = messages.is_empty() && reply.is_none() && answer.text.is_none();
        let framing = if is_empty { "none" } else { kind };
        Self {
            framing: framing.to_owned(),
            notes: format!("[{}]", messages.join(",")),
            reply,
            text: answer.text.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
