//! What lies between a client and a server while they are recorded: bytes pass as they come, and a
//! copy is kept.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use hangar_tests::wait;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::corpus::{Answer, Ask, Exchange};
use crate::loopback::Loopback;

/// In front of one server; closed when dropped.
#[derive(Debug)]
pub(super) struct Tap {
    listening: Loopback,
    path: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    http: Client<HttpConnector, Full<Bytes>>,
    server: Uri,
    kept: Mutex<Vec<Kept>>,
}

/// One exchange, in the order in which requests came.
#[derive(Debug)]
struct Kept {
    verb: String,
    asked: HeaderMap,
    question: Bytes,
    answer: Option<(u16, HeaderMap)>,
    body: Vec<u8>,
    is_over: bool,
}

/// A body of the server on its way to the client.
struct Copied {
    body: Incoming,
    shared: Arc<Shared>,
    index: usize,
}

/// Headers that mean something to MCP; the others are about connections and programs.
const ASKED: [&str; 7] = [
    "accept",
    "content-type",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
];
const PARAMS: &str = "mcp-param-";
const ANSWERED: [&str; 4] = ["allow", "cache-control", "content-type", "mcp-session-id"];

// === impl Tap ===

impl Tap {
    pub(super) async fn start(server: &str) -> Result<Self> {
        let server: Uri = server.parse()?;
        let path = server.path().to_owned();
        let shared = Arc::new(Shared {
            http: Client::builder(TokioExecutor::new()).build_http(),
            server,
            kept: Mutex::default(),
        });
        let to = Arc::clone(&shared);
        let listening = Loopback::serve(move |request| {
            let shared = Arc::clone(&to);
            async move { pass(request, &shared).await }
        })
        .await?;
        Ok(Self {
            listening,
            path,
            shared,
        })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}{}", self.listening.address(), self.path)
    }

    /// What was kept since the last time, once everything has come to its end.
    pub(super) async fn taken(&self, run: &str) -> Result<Vec<Exchange>> {
        wait::eventually("end of all exchanges", async || {
            let open = self.shared.lock().iter().filter(|one| !one.is_over).count();
            ensure!(open == 0, "{open} are open");
            Ok(())
        })
        .await?;
        let kept = std::mem::take(&mut *self.shared.lock());
        // One that its client left before the first byte has no answer to be compared with.
        let answered = kept.into_iter().filter(|one| one.answer.is_some());
        answered.map(|one| one.exchange(run)).collect()
    }
}

async fn pass(request: Request<Incoming>, shared: &Arc<Shared>) -> Result<Response<Copied>> {
    let (mut head, body) = request.into_parts();
    let question = body.collect().await?.to_bytes();
    let index = shared.add(Kept {
        verb: head.method.to_string(),
        asked: head.headers.clone(),
        question: question.clone(),
        answer: None,
        body: Vec::new(),
        is_over: false,
    });
    let mut copied = Ended {
        shared,
        index,
        is_armed: true,
    };
    head.uri = shared.server.clone();
    let request = Request::from_parts(head, Full::new(question));
    let (head, body) = shared.http.request(request).await?.into_parts();
    shared.lock()[index].answer = Some((head.status.as_u16(), head.headers.clone()));
    copied.is_armed = false;
    let body = Copied {
        body,
        shared: Arc::clone(shared),
        index,
    };
    Ok(Response::from_parts(head, body))
}

/// Ends an exchange that never came to a body.
struct Ended<'a> {
    shared: &'a Shared,
    index: usize,
    is_armed: bool,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.shared.lock()[self.index].is_over = true;
        }
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, one: Kept) -> usize {
        let mut kept = self.lock();
        kept.push(one);
        kept.len() - 1
    }
}

// === impl Copied ===

impl Body for Copied {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.shared.lock()[self.index].body.extend_from_slice(data);
        }
        Poll::Ready(frame)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.shared.lock()[self.index].is_over = true;
    }
}

// === impl Kept ===

impl Kept {
    fn exchange(self, run: &str) -> Result<Exchange> {
        let Self {
            verb,
            asked,
            question,
            answer,
            body,
            is_over: _,
        } = self;
        let (status, answered) = answer.context("no answer")?;
        let mut headers = chosen(&asked, |name| {
            ASKED.contains(&name.as_str()) || name.as_str().starts_with(PARAMS)
        });
        // Who asks a foreign host, or comes from a foreign page, does so to be refused.
        for name in ["host", "origin"] {
            let value = asked.get(name).and_then(|value| value.to_str().ok());
            if let Some(value) = value.filter(|value| !is_ours(value)) {
                headers.insert(name.to_owned(), value.to_owned());
            }
        }
        let answered = chosen(&answered, |name| ANSWERED.contains(&name.as_str()));
        Ok(Exchange {
            run: run.to_owned(),
            ask: Ask::read(&verb, headers, &question),
            answer: Answer::read(status, answered, &body)?,
        })
    }
}

fn is_ours(value: &str) -> bool {
    ["127.0.0.1", "localhost"]
        .iter()
        .any(|ours| value.contains(ours))
}

fn chosen(headers: &HeaderMap, wanted: impl Fn(&HeaderName) -> bool) -> BTreeMap<String, String> {
    let names = headers.keys().filter(|name| wanted(name));
    let pairs = names.map(|name| {
        let values = headers.get_all(name).iter();
        let values: Vec<_> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
            .collect();
        (name.to_string(), values.join(", "))
    });
    pairs.collect()
}
