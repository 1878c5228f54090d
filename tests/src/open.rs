//! A connection on which an answer is read as it comes; dropping it is leaving.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::envelope::Envelope;
use crate::{sse, wait};

/// A request that was sent, and what has come of its answer.
#[derive(Debug)]
pub struct Open {
    socket: TcpStream,
    pub got: String,
}

const RECEIVE_BUFFER: u32 = 64 << 10;

// === impl Open ===

impl Open {
    /// Sends a request to this path.
    pub async fn send(address: &str, path: &str, key: &str, envelope: &Envelope) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        // A kernel that keeps megabytes for a client which does not read would hide who waits.
        socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
        let address: SocketAddr = address.parse()?;
        let mut socket = socket.connect(address).await.context("connect")?;
        let body = envelope.body();
        let mut head = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in envelope.headers() {
            head.extend([name, ": ", value, "\r\n"]);
        }
        head.push_str("\r\n");
        socket.write_all(head.as_bytes()).await?;
        socket.write_all(&body).await?;
        Ok(Self {
            socket,
            got: String::new(),
        })
    }

    /// Reads until this has come.
    pub async fn until(&mut self, needle: &str) -> Result<()> {
        let what = format!("{needle} in the answer");
        // Only what is new is looked through, so that a long answer is not read many times.
        self.read(&what, |open, from| {
            let mut from = from.saturating_sub(needle.len());
            while !open.got.is_char_boundary(from) {
                from -= 1;
            }
            open.got[from..].contains(needle)
        })
        .await
    }

    /// Reads until so many events have come, and gives all of them.
    pub async fn events(&mut self, count: usize) -> Result<Vec<Value>> {
        let what = format!("{count} events");
        self.read(&what, |open, _| open.all().len() >= count)
            .await?;
        let events = self.all();
        let parsed = events.iter().map(|event| serde_json::from_str(event));
        Ok(parsed.collect::<Result<_, _>>()?)
    }

    /// Reads to the end of the answer, and gives all events.
    pub async fn to_end(&mut self) -> Result<Vec<Value>> {
        self.until("\r\n0\r\n\r\n").await?;
        self.events(0).await
    }

    /// The events that are complete. Each piece of a body in pieces has its size on a line before.
    fn all(&self) -> Vec<String> {
        let body = self.got.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        // What a piece begins with is no field of an event, but it may cut one.
        let mut whole = String::new();
        let mut rest = body;
        while let Some((size, after)) = rest.split_once("\r\n") {
            let size = usize::from_str_radix(size, 16).unwrap_or_default();
            let piece = after.get(..size).unwrap_or(after);
            whole.push_str(piece);
            rest = after.get(size + 2..).unwrap_or_default();
            if size == 0 {
                break;
            }
        }
        let end = whole.rfind("\n\n").map_or(0, |end| end + 2);
        sse::events(&whole[..end])
    }

    async fn read(&mut self, what: &str, enough: impl Fn(&Self, usize) -> bool) -> Result<()> {
        let reading = async {
            let mut piece = vec![0; 64 << 10];
            let mut from = 0;
            while !enough(self, from) {
                from = self.got.len();
                let size = self.socket.read(&mut piece).await?;
                ensure!(size > 0, "the answer ended: {}", self.got);
                self.got.push_str(std::str::from_utf8(&piece[..size])?);
            }
            anyhow::Ok(())
        };
        let read = tokio::time::timeout(wait::PATIENCE, reading).await;
        let Ok(read) = read else {
            anyhow::bail!("{what}: not in time: {}", self.got);
        };
        read.with_context(|| what.to_owned())
    }
}
