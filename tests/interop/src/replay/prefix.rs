//! Names as they are at the tenant's endpoint: those of tools and prompts begin with the prefix that
//! the policy gives the upstream, everything else is the same.

use serde_json::value::RawValue;

use crate::corpus::{Answer, Ask, Exchange};
use crate::json;

/// The prefix of every upstream.
pub(super) const PREFIX: &str = "up";

/// What a client asks at the tenant's endpoint.
pub(super) fn asked(exchange: &Exchange) -> Exchange {
    let mut exchange = exchange.clone();
    let method = exchange.ask.method();
    let (holder, ask) = match method.as_str() {
        "tools/call" | "prompts/get" => (None, &mut exchange.ask),
        "completion/complete" => (Some("ref"), &mut exchange.ask),
        _ => return exchange,
    };
    let Some(body) = ask.body.as_ref().map(|body| body.get().to_owned()) else {
        return exchange;
    };
    let body = within(&body, "params", |params| match holder {
        Some(holder) => within(params, holder, named),
        None => named(params),
    });
    head(ask);
    ask.body = RawValue::from_string(body).ok();
    exchange
}

/// What it should be answered there.
pub(super) fn answered(method: &str, answer: &Answer) -> Answer {
    let list = match method {
        "tools/list" => "tools",
        "prompts/list" => "prompts",
        _ => return answer.clone(),
    };
    answer.clone().edited(|message| {
        within(message, "result", |result| {
            within(result, list, |items| json::each(items, named))
        })
    })
}

/// The header that mirrors the name; one that says something else goes on doing so.
fn head(ask: &mut Ask) {
    let name = ask.param("name");
    if let Some(header) = ask.headers.get_mut("mcp-name")
        && Some(&*header) == name.as_ref()
    {
        *header = prefixed(header);
    }
}

fn prefixed(name: &str) -> String {
    format!("{PREFIX}__{name}")
}

/// An object with its `name` prefixed.
fn named(object: &str) -> String {
    within(object, "name", |name| {
        let name: Result<String, _> = serde_json::from_str(name);
        name.map_or_else(|_| "null".to_owned(), |name| json::quoted(&prefixed(&name)))
    })
}

/// An object with one member edited, if it has it.
fn within(object: &str, name: &str, edit: impl FnOnce(&str) -> String) -> String {
    match json::member(object, name) {
        Some(member) => json::with(object, name, &edit(&member)),
        None => object.to_owned(),
    }
}

#[cfg(test)]
mod tests;
