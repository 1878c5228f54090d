//! The HTTP side: one accept loop, a body that can be held and cut.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use anyhow::Result;
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::{Content, Step};
use super::{Answer, Gate, Seen, Shared};

/// The pieces of a body as they are allowed out; an error closes the connection.
struct Pieces {
    pieces: mpsc::Receiver<io::Result<Bytes>>,
    /// Rung at the end of the body, which HTTP has then taken whole.
    bells: Vec<Gate>,
}

pub(super) async fn listen(shared: Arc<Shared>, stop: CancellationToken) -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let accept = accept_all(&listener, &shared, &stop);
        stop.run_until_cancelled(accept).await;
    });
    Ok(address)
}

async fn accept_all(listener: &TcpListener, shared: &Arc<Shared>, stop: &CancellationToken) {
    let mut connection = 0;
    while let Ok((stream, _)) = listener.accept().await {
        let serve = serve(stream, Arc::clone(shared), connection);
        let stop = stop.clone();
        tokio::spawn(async move { stop.run_until_cancelled(serve).await });
        connection += 1;
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>, connection: usize) {
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { respond(request, &shared, connection).await }
    });
    let http = hyper::server::conn::http1::Builder::new();
    // A peer that hangs up, and a cut that a test asked for, both end here as an error.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    request: Request<Incoming>,
    shared: &Shared,
    connection: usize,
) -> io::Result<Response<Pieces>> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path();
    let seen = Seen::new(head.method.as_str(), path, head.headers, body, connection);
    let answer = shared.take(&seen);
    for step in &answer.steps {
        if let Step::HoldHead(gate) = step {
            gate.pass().await;
        }
    }
    if matches!(answer.content, Content::HangUp) {
        return Err(io::Error::other("the test said so"));
    }
    let (content_type, body) = answer.body(&seen);
    let mut response = Response::builder()
        .status(answer.status.unwrap_or_default())
        .header("content-type", content_type);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    let (sender, pieces) = mpsc::channel(1);
    let bells = answer.steps.iter().filter_map(|step| match step {
        Step::Ring(gate) => Some(gate.clone()),
        _ => None,
    });
    let bells = bells.collect();
    tokio::spawn(send_pieces(answer, Bytes::from(body), sender));
    let body = Pieces { pieces, bells };
    response.body(body).map_err(io::Error::other)
}

async fn send_pieces(answer: Answer, body: Bytes, to: mpsc::Sender<io::Result<Bytes>>) {
    let mut sent = 0;
    for step in &answer.steps {
        let at = match step {
            Step::HoldHead(_) | Step::Ring(_) | Step::Drip(_) | Step::Repeat(_) => continue,
            Step::Hold { at, .. } | Step::Cut { at } => (*at).clamp(sent, body.len()),
        };
        if at > sent && to.send(Ok(body.slice(sent..at))).await.is_err() {
            return;
        }
        sent = at;
        match step {
            Step::HoldHead(_) | Step::Ring(_) | Step::Drip(_) | Step::Repeat(_) => {}
            Step::Hold { gate, .. } => gate.pass().await,
            Step::Cut { .. } => {
                // The receiver is gone when the peer is: nobody is left to tell.
                let _ = to.send(Err(io::Error::other("cut here"))).await;
                return;
            }
        }
    }
    let rest = body.slice(sent..);
    let drip = answer.steps.iter().find_map(|step| match step {
        Step::Drip(period) => Some(*period),
        _ => None,
    });
    for piece in rest.chunks(if drip.is_some() { 1 } else { rest.len().max(1) }) {
        if let Some(period) = drip {
            tokio::time::sleep(period).await;
        }
        if to.send(Ok(rest.slice_ref(piece))).await.is_err() {
            return;
        }
    }
    for step in &answer.steps {
        if let Step::Repeat(again) = step {
            while to.send(Ok(Bytes::clone(again))).await.is_ok() {}
        }
    }
}

// === impl Pieces ===

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = ready!(self.pieces.poll_recv(cx));
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        for gate in &self.bells {
            gate.ring();
        }
    }
}
