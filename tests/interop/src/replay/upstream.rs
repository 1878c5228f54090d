//! An upstream that answers as it was recorded.
//!
//! One exchange at a time is on: the request that it recorded gets the answer that it recorded, with
//! the id that the request has. What the gateway asks by itself (the contract before and after a
//! task, the task before an answer to its question) gets what the recording last had for it.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderMap;
use hyper::{Request, Response};

use crate::corpus::{Answer, Ask, Exchange, Recording};
use crate::json;
use crate::loopback::Loopback;

/// One recorded server.
#[derive(Debug)]
pub(super) struct Upstream {
    server: Loopback,
    shared: Arc<Mutex<State>>,
}

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

#[derive(Debug, Default)]
struct State {
    /// Answers to what is asked without being on, with the id that they answered: by method, or by
    /// method and task.
    known: BTreeMap<String, (Option<String>, Answer)>,
    on: Option<Exchange>,
    arrived: Option<Arrived>,
}

/// A stream that its client ends.
struct Open(Option<Bytes>);

type Body = Either<Full<Bytes>, Open>;

// === impl Upstream ===

impl Upstream {
    pub(super) async fn start(recording: &Recording) -> Result<Self> {
        let mut state = State::default();
        // Contracts are asked for before a client has asked for them.
        for exchange in recording.exchanges.iter().rev() {
            if exchange.answer.is_good() && !exchange.ask.method().starts_with("tasks/") {
                let known = (exchange.ask.id(), exchange.answer.clone());
                state.known.insert(exchange.ask.method(), known);
            }
        }
        let shared = Arc::new(Mutex::new(state));
        let to = Arc::clone(&shared);
        let server = Loopback::serve(move |request| {
            let shared = Arc::clone(&to);
            async move { respond(request, &shared).await }
        })
        .await?;
        Ok(Self { server, shared })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.server.address())
    }

    /// From now on this exchange is on.
    pub(super) fn turn_to(&self, exchange: &Exchange) {
        let mut state = lock(&self.shared);
        state.on = Some(exchange.clone());
        state.arrived = None;
    }

    /// The request of the exchange that is on, if it came.
    pub(super) fn arrived(&self) -> Option<Arrived> {
        lock(&self.shared).arrived.take()
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn respond(request: Request<Incoming>, shared: &Mutex<State>) -> Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let ask = Ask::read(head.method.as_str(), flat(&head.headers), &body);
    let (answer, is_open) = lock(shared).answer(&ask);
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let bytes = Bytes::from(answer.bytes());
    let body = if is_open {
        Either::Right(Open(Some(bytes)))
    } else {
        Either::Left(Full::new(bytes))
    };
    Ok(response.body(body)?)
}

/// Values of one name are joined, as HTTP allows.
pub(super) fn flat(headers: &HeaderMap) -> BTreeMap<String, String> {
    let pairs = headers.keys().map(|name| {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        (name.to_string(), values.join(", "))
    });
    pairs.collect()
}

/// What is asked for: the method, and of a task its id.
fn subject(ask: &Ask) -> String {
    let method = ask.method();
    match ask.param("taskId") {
        Some(task) => format!("{method} {task}"),
        None => method,
    }
}

// === impl State ===

impl State {
    /// The answer, and whether its stream stays open.
    fn answer(&mut self, ask: &Ask) -> (Answer, bool) {
        let on = self.on.take_if(|on| subject(&on.ask) == subject(ask));
        if on.is_some() {
            self.arrived = Some(Arrived {
                headers: ask.headers.clone(),
                body: ask.bytes(),
            });
        }
        // What was refused for its own form is not refused when the gateway has put it right.
        let on = on.filter(|on| !on.answer.is_refusal() || is_same(&on.ask, ask));
        let Some(Exchange {
            ask: asked, answer, ..
        }) = on
        else {
            let known = self.known.get(&subject(ask)).cloned();
            let (id, answer) = known.unwrap_or_else(|| (ask.id(), Answer::unknown(ask)));
            return (answer.with_id(id, ask.id()), false);
        };
        let answer = answer.at_any_pace();
        self.learn(&asked, &answer);
        let is_open = answer.is_open();
        (answer.with_id(asked.id(), ask.id()), is_open)
    }

    /// What it has said from now on, too, to what is not on.
    fn learn(&mut self, ask: &Ask, answer: &Answer) {
        if answer.is_good() {
            let known = (ask.id(), answer.clone());
            self.known.insert(subject(ask), known);
        }
        if let Some(task) = answer.created() {
            let known = (ask.id(), answer.clone().as_snapshot());
            self.known.insert(format!("tasks/get {task}"), known);
        }
    }
}

/// Whether a request is the recorded one, for a server that looks at its headers too.
fn is_same(recorded: &Ask, ask: &Ask) -> bool {
    let told = |ask: &Ask| -> BTreeMap<String, String> {
        let told = ask
            .headers
            .iter()
            .filter(|(name, _)| name.starts_with("mcp-"));
        told.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let accepted = |ask: &Ask| -> BTreeSet<String> {
        let accept = ask.headers.get("accept").map_or("", String::as_str);
        accept
            .split(',')
            .map(|kind| kind.trim().to_owned())
            .collect()
    };
    let message = |ask: &Ask| json::without(&ask.bytes(), "id");
    let is_foreign = ["host", "origin"]
        .iter()
        .filter_map(|name| Some((name, recorded.headers.get(*name)?)))
        .any(|(name, value)| ask.headers.get(*name) != Some(value));
    !is_foreign
        && told(recorded) == told(ask)
        && accepted(recorded) == accepted(ask)
        && json::apart(&message(recorded), &message(ask)).is_empty()
}

// === impl Open ===

impl hyper::body::Body for Open {
    type Data = Bytes;
    type Error = Infallible;

    /// The messages, and then nothing more for as long as the peer stays.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None => Poll::Pending,
        }
    }
}
