//! An upstream's side of `subscriptions/listen`: an acknowledgement, then messages when the test
//! says so.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Answer, Framing, Gate, Seen, Upstream};
use crate::sse;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// What every listener is told from now on; each message waits for its gate, the end for another.
#[derive(Clone, Debug)]
pub struct Feed {
    gates: Vec<Gate>,
    end: Gate,
    gone: Gate,
}

// === impl Feed ===

impl Feed {
    /// Scripts the method. Messages get the subscription's id where they have none.
    pub fn script(upstream: &Upstream, granted: &Value, messages: &[Value]) -> Self {
        let feed = Self {
            gates: messages.iter().map(|_| Gate::new()).collect(),
            end: Gate::new(),
            gone: Gate::new(),
        };
        let (told, granted, messages) = (feed.clone(), granted.clone(), messages.to_vec());
        upstream.script("subscriptions/listen", move |seen| {
            told.answer(seen, &granted, &messages)
        });
        feed
    }

    /// Lets out one message.
    pub fn open(&self, message: usize) {
        self.gates[message].open();
    }

    /// Lets out all messages.
    pub fn open_all(&self) {
        self.gates.iter().for_each(Gate::open);
    }

    /// Lets the streams end.
    pub fn end(&self) {
        self.end.open();
    }

    /// Whether some stream has given out its last message.
    pub fn is_through(&self) -> bool {
        self.end.count() > 0
    }

    /// Returns once some stream is gone, whoever ended it.
    pub async fn gone(&self) -> Result<()> {
        self.gone.reached(1).await
    }

    fn answer(&self, seen: &Seen, granted: &Value, messages: &[Value]) -> Answer {
        let id = seen.message()["id"].take();
        let event = |message: &Value| {
            let mut message = message.clone();
            let meta = &mut message["params"]["_meta"];
            if meta.get(SUBSCRIPTION).is_none() {
                meta[SUBSCRIPTION] = id.clone();
            }
            sse::event(&message.to_string())
        };
        let mut body = event(&json!({
            "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"notifications": granted},
        }));
        let mut holds = Vec::new();
        for (message, gate) in messages.iter().zip(&self.gates) {
            holds.push((body.len(), gate));
            body.push_str(&event(message));
        }
        holds.push((body.len(), &self.end));
        let ended = json!({"jsonrpc": "2.0", "id": id, "result": {
            "resultType": "complete", "_meta": {SUBSCRIPTION: id},
        }});
        body.push_str(&sse::event(&ended.to_string()));
        let answer = Answer::raw(body).framed(Framing::Sse).rings(&self.gone);
        holds
            .into_iter()
            .fold(answer, |answer, (at, gate)| answer.held_at(at, gate))
    }
}
