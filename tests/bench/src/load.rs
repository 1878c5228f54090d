//! The load: workers with one kept connection each, calling again and again.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hangar_tests::envelope::Envelope;
use hangar_tests::wait;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Where a call goes, and what it is.
#[derive(Debug)]
pub(crate) struct Target {
    address: SocketAddr,
    path: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// Workers that are connected.
#[derive(Debug)]
pub(crate) struct Workers(Vec<Worker>);

/// What a round of all workers came to.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// One for each call, in no order.
    pub(crate) latencies: Vec<Duration>,
    /// From the first call's start to the last call's end.
    pub(crate) elapsed: Duration,
}

#[derive(Debug)]
struct Worker {
    target: Target,
    /// What every answer must be, byte for byte.
    expected: Bytes,
    connection: Connection,
}

#[derive(Debug)]
struct Connection(SendRequest<Full<Bytes>>);

/// A worker after its round.
struct Worked {
    worker: Worker,
    latencies: Vec<Duration>,
    error: Option<anyhow::Error>,
}

// === impl Target ===

impl Target {
    pub(crate) fn new(address: SocketAddr, path: &str, envelope: &Envelope) -> Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(&address.to_string())?);
        for (name, value) in envelope.headers() {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            headers.append(name, HeaderValue::from_str(value)?);
        }
        Ok(Self {
            address,
            path: path.parse()?,
            headers,
            body: envelope.body(),
        })
    }

    /// The body of one answer with status 200.
    pub(crate) async fn answer(&self) -> Result<Bytes> {
        let mut connection = Connection::open(self.address).await?;
        let response = connection.send(self).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "{}", refusal(status, &body));
        Ok(body)
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

// === impl Workers ===

impl Workers {
    /// One worker for each call and the answer that it must get.
    pub(crate) async fn connect(calls: Vec<(Target, Bytes)>) -> Result<Self> {
        let mut workers = Vec::with_capacity(calls.len());
        for (target, expected) in calls {
            workers.push(Worker {
                connection: Connection::open(target.address).await?,
                target,
                expected,
            });
        }
        Ok(Self(workers))
    }

    /// Lets every worker call until the time is over; a call that has begun is ended.
    ///
    /// Guarantees: an error if a single call failed; it says how many workers met one, and the first.
    pub(crate) async fn round(&mut self, time: Duration) -> Result<Round> {
        let began = Instant::now();
        let workers = self.0.len();
        let mut running = JoinSet::new();
        for worker in self.0.drain(..) {
            running.spawn(work(worker, began + time));
        }
        let ended = tokio::time::timeout(time + wait::PATIENCE, running.join_all()).await;
        let ended = ended.with_context(|| {
            format!("a call has no answer {:?} after the round", wait::PATIENCE)
        })?;
        let elapsed = began.elapsed();
        let mut latencies = Vec::new();
        let mut errors = Vec::new();
        for worked in ended {
            latencies.extend(worked.latencies);
            errors.extend(worked.error);
            self.0.push(worked.worker);
        }
        let failed = errors.len();
        if let Some(first) = errors.into_iter().next() {
            return Err(first.context(format!("{failed} of {workers} workers failed, one so")));
        }
        Ok(Round { latencies, elapsed })
    }
}

/// Calls until `until` or the first error.
async fn work(mut worker: Worker, until: Instant) -> Worked {
    let mut latencies = Vec::new();
    let mut began = Instant::now();
    let mut error = None;
    while began < until {
        let Worker {
            target,
            expected,
            connection,
        } = &mut worker;
        if let Err(failed) = connection.call(target, expected).await {
            error = Some(failed);
            break;
        }
        let ended = Instant::now();
        latencies.push(ended - began);
        began = ended;
    }
    Worked {
        worker,
        latencies,
        error,
    }
}

// === impl Round ===

impl Round {
    pub(crate) fn add(&mut self, other: Self) {
        let Self { latencies, elapsed } = other;
        self.latencies.extend(latencies);
        self.elapsed += elapsed;
    }
}

// === impl Connection ===

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .with_context(|| format!("{address} cannot be connected to"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // Its end is seen by the call that finds the connection closed.
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    async fn send(&mut self, target: &Target) -> Result<Response<Incoming>> {
        self.0.ready().await.context("the connection is closed")?;
        let sent = self.0.send_request(target.request()).await;
        sent.context("no answer")
    }

    /// One call; an error unless the answer is the expected one.
    async fn call(&mut self, target: &Target, expected: &Bytes) -> Result<()> {
        let response = self.send(target).await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut rest = expected.as_ref();
        while let Some(frame) = body.frame().await {
            let frame = frame.context("the answer broke off")?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            // Compared piece by piece, so that nothing is copied.
            match rest.strip_prefix(data.as_ref()) {
                Some(after) if status == StatusCode::OK => rest = after,
                _ => bail!("{}", refusal(status, data)),
            }
        }
        ensure!(rest.is_empty(), "the answer lacks {} bytes", rest.len());
        Ok(())
    }
}

/// What came instead of the answer, as far as a line has room for it.
fn refusal(status: StatusCode, body: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    format!("not the expected answer: {status} {shown}")
}
