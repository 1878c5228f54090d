//! Connections that say too little, on sockets of the loopback interface.
//!
//! The bound for the server is short, and a test waits far longer than it before it fails.

use std::net::SocketAddr;

use axum::routing::get;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;

use super::*;

struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinHandle<()>,
    /// Lets one `/held` be answered.
    gate: Arc<Semaphore>,
}

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_hours(1);
/// Only a test that fails takes so long.
const PATIENCE: Duration = Duration::from_secs(30);
const REQUEST: &[u8] = b"GET /hello HTTP/1.1\r\nhost: here\r\n\r\n";

// === impl Server ===

impl Server {
    async fn start(header_timeout: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let held = async move || {
            held.acquire().await.unwrap().forget();
            "hello"
        };
        let app = Router::new()
            .route("/hello", get(|| async { "hello" }))
            .route("/held", get(held));
        let bounds = Bounds {
            header_timeout,
            ..Bounds::probes()
        };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, app, bounds, stop.clone()));
        Self {
            address,
            stop,
            serving,
            gate,
        }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn end(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(PATIENCE, self.serving).await;
        ended.expect("the server does not end").unwrap();
    }
}

/// Everything that the server says until it closes the connection.
async fn rest(socket: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = async {
        // A reset is an end too.
        let _ = socket.read_to_end(&mut all).await;
    };
    let closed = tokio::time::timeout(PATIENCE, read).await;
    closed.expect("the connection is still open");
    all
}

/// One answer, its body included.
async fn answer(socket: &mut TcpStream) -> String {
    let mut text = Vec::new();
    while !text.ends_with(b"hello") {
        let read = tokio::time::timeout(PATIENCE, socket.read_buf(&mut text)).await;
        assert_ne!(read.expect("no answer").unwrap(), 0, "closed");
    }
    String::from_utf8(text).unwrap()
}

/// Each of these held one of the places for ever: no bound ran before the protocol was known.
#[tokio::test]
async fn a_client_that_does_not_say_what_it_speaks_is_cut_off() {
    let server = Server::start(SHORT).await;
    for first in [
        &b""[..],
        b"P",
        b"PRI * HTTP/2.0\r\n",
        &PREFACE[..23],
        b"G",
        b"GET / HTTP/1.1\r\n",
    ] {
        let mut socket = server.connect().await;
        socket.write_all(first).await.unwrap();
        rest(&mut socket).await;
    }
    server.end().await;
}

/// Every byte is a sign of life, but the bound is for all of them together.
#[tokio::test]
async fn a_client_that_speaks_byte_by_byte_is_cut_off() {
    let server = Server::start(SHORT).await;
    let mut socket = server.connect().await;
    let (mut reader, mut writer) = socket.split();
    let mut pace = tokio::time::interval(SHORT / 5);
    let dripping = async {
        for byte in &PREFACE[..23] {
            pace.tick().await;
            if writer.write_all(&[*byte]).await.is_err() {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    let mut all = Vec::new();
    let cut_off = async {
        let _ = reader.read_to_end(&mut all).await;
    };
    let ended = async {
        tokio::select! {
            () = dripping => {}
            () = cut_off => {}
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    ended.expect("the connection is still open");
    server.end().await;
}

#[tokio::test]
async fn a_connection_without_a_next_request_is_closed() {
    let server = Server::start(SHORT).await;
    let mut socket = server.connect().await;
    socket.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut socket).await.starts_with("HTTP/1.1 200 OK"));
    rest(&mut socket).await;
    server.end().await;
}

#[tokio::test]
async fn what_was_read_to_tell_the_protocols_apart_is_not_lost() {
    let server = Server::start(LONG).await;
    let mut socket = server.connect().await;
    // Two requests over one connection, one of them in pieces.
    for pieces in [vec![REQUEST], REQUEST.chunks(1).collect()] {
        for piece in pieces {
            socket.write_all(piece).await.unwrap();
        }
        assert!(answer(&mut socket).await.starts_with("HTTP/1.1 200 OK"));
    }
    let mut socket = server.connect().await;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    socket.write_all(PREFACE).await.unwrap();
    socket.write_all(&settings).await.unwrap();
    let mut frame = [0; 9];
    let read = tokio::time::timeout(PATIENCE, socket.read_exact(&mut frame)).await;
    read.expect("no answer").unwrap();
    assert_eq!(
        frame[3], 4,
        "a server that speaks HTTP/2 says its settings first"
    );
    drop(socket);
    server.end().await;
}

#[tokio::test]
async fn a_silent_client_does_not_hold_up_the_end() {
    let server = Server::start(LONG).await;
    let mut silent = server.connect().await;
    // A later connection was served: the silent one was accepted before it.
    let mut socket = server.connect().await;
    socket.write_all(REQUEST).await.unwrap();
    answer(&mut socket).await;
    server.end().await;
    assert_eq!(rest(&mut silent).await, b"");
}

/// A client that did not know yet of the end was left with a connection that nobody took.
#[tokio::test]
async fn who_comes_while_others_are_waited_for_is_answered_once() {
    let server = Server::start(LONG).await;
    let mut held = server.connect().await;
    held.write_all(b"GET /held HTTP/1.1\r\nhost: here\r\n\r\n")
        .await
        .unwrap();
    // Served after it: the held request is in flight.
    let mut idle = server.connect().await;
    idle.write_all(REQUEST).await.unwrap();
    answer(&mut idle).await;
    server.stop.cancel();
    assert_eq!(rest(&mut idle).await, b"", "nothing more is asked on it");
    for _ in 0..3 {
        let mut late = server.connect().await;
        late.write_all(&[REQUEST, REQUEST].concat()).await.unwrap();
        let text = String::from_utf8(rest(&mut late).await).unwrap();
        assert!(text.contains("connection: close"), "{text}");
        assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 1, "{text}");
    }
    assert!(!server.serving.is_finished(), "somebody is waited for");
    server.gate.add_permits(1);
    assert!(answer(&mut held).await.contains("connection: close"));
    server.end().await;
}
