//! Sockets that say what the test says: HTTP/1.1 and HTTP/2 by hand.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::envelope::Envelope;
use crate::wait;

/// One connection, with what came and was not looked at yet.
#[derive(Debug)]
pub struct Raw {
    socket: TcpStream,
    got: Vec<u8>,
}

/// An HTTP/1.1 answer.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    /// Everything before the body, in lower case.
    pub head: String,
    pub body: String,
}

/// An HTTP/2 frame.
#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Request line and headers of a request as its client writes it, with these in front.
pub fn head(envelope: &Envelope, key: &str, more: &str) -> String {
    let mut head = format!(
        "POST /mcp/default/reports HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{more}"
    );
    for (name, value) in envelope.headers() {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head + "\r\n"
}

/// A whole request with this body.
pub fn request(envelope: &Envelope, key: &str, more: &str, body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}\r\n{more}", body.len());
    let mut request = head(envelope, key, &length).into_bytes();
    request.extend_from_slice(body);
    request
}

/// The header block of an HTTP/2 request as its client writes it, with these headers behind.
pub fn h2_head(envelope: &Envelope, key: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let key = format!("Bearer {key}");
    let mut headers = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/mcp/default/reports"),
        ("authorization", key.as_str()),
    ];
    headers.extend(
        envelope
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    );
    headers.extend(more);
    header_block(&headers)
}

/// A whole request on this stream.
pub fn h2_request(stream: u32, envelope: &Envelope, key: &str) -> Vec<u8> {
    let mut request = frame(HEADERS, END_HEADERS, stream, &h2_head(envelope, key, &[]));
    request.extend(frame(DATA, END_STREAM, stream, &envelope.body()));
    request
}

/// Headers of an HTTP/2 request, without compression.
pub fn header_block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            put_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// An integer with a prefix of seven bits (RFC 7541, 5.1).
fn put_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        block.extend(u8::try_from(length));
        return;
    }
    block.push(127);
    let mut left = length - 127;
    while left >= 128 {
        block.push(u8::try_from(left % 128).unwrap_or_default() | 128);
        left /= 128;
    }
    block.extend(u8::try_from(left));
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let mut frame = length.to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

// === impl Raw ===

impl Raw {
    pub async fn connect(address: &str) -> Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            got: Vec::new(),
        })
    }

    /// An HTTP/2 connection with these settings.
    pub async fn connect_h2(address: &str, settings: &[u8]) -> Result<Self> {
        let mut raw = Self::connect(address).await?;
        raw.say(PREFACE).await?;
        raw.say(&frame(SETTINGS, 0, 0, settings)).await?;
        Ok(raw)
    }

    pub async fn say(&mut self, bytes: &[u8]) -> Result<()> {
        let said = tokio::time::timeout(wait::PATIENCE, self.socket.write_all(bytes)).await;
        Ok(said.context("nobody reads")??)
    }

    /// Whether anything came that was not looked at yet. Does not wait.
    pub fn has_something(&mut self) -> bool {
        // An end that came is something too; nothing to read is an error of this call.
        !self.got.is_empty() || self.socket.try_read_buf(&mut self.got).is_ok()
    }

    /// Nothing more will be said.
    pub async fn half_close(&mut self) -> Result<()> {
        Ok(self.socket.shutdown().await?)
    }

    /// The next HTTP/1.1 answer.
    pub async fn answer(&mut self) -> Result<Said> {
        let mut said = self.answer_to_head().await?;
        let length = said.length()?.unwrap_or(0);
        while self.got.len() < length {
            self.more().await?;
        }
        let body: Vec<u8> = self.got.drain(..length).collect();
        said.body = String::from_utf8(body)?;
        Ok(said)
    }

    /// The next HTTP/1.1 answer, to a request whose answer has no body.
    pub async fn answer_to_head(&mut self) -> Result<Said> {
        let end = loop {
            if let Some(at) = self.got.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head: Vec<u8> = self.got.drain(..end).collect();
        let head = String::from_utf8(head)?.to_ascii_lowercase();
        let status = head.split(' ').nth(1).context("no status")?.parse()?;
        Ok(Said {
            status,
            head,
            body: String::new(),
        })
    }

    /// The next HTTP/2 frame; none when the connection is closed.
    pub async fn frame(&mut self) -> Result<Option<Frame>> {
        let length = loop {
            if let [a, b, c, ..] = self.got[..] {
                let length = 9 + usize::try_from(u32::from_be_bytes([0, a, b, c]))?;
                if self.got.len() >= length {
                    break length;
                }
            }
            if !self.read().await? {
                return Ok(None);
            }
        };
        let frame: Vec<u8> = self.got.drain(..length).collect();
        let [_, _, _, kind, flags, a, b, c, d, payload @ ..] = &frame[..] else {
            bail!("short frame");
        };
        Ok(Some(Frame {
            kind: *kind,
            flags: *flags,
            stream: u32::from_be_bytes([*a & 0x7f, *b, *c, *d]),
            payload: payload.to_vec(),
        }))
    }

    /// Reads frames until one is wanted; none when the connection is closed before.
    pub async fn frame_until(&mut self, wanted: impl Fn(&Frame) -> bool) -> Result<Option<Frame>> {
        while let Some(frame) = self.frame().await? {
            if wanted(&frame) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Everything until the connection is closed.
    pub async fn rest(&mut self) -> Result<String> {
        while self.read().await? {}
        Ok(String::from_utf8_lossy(&self.got).into_owned())
    }

    async fn more(&mut self) -> Result<()> {
        let open = self.read().await?;
        let got = String::from_utf8_lossy(&self.got);
        ensure!(open, "closed after {got:?}");
        Ok(())
    }

    /// False when the connection is closed; a reset is an end too.
    async fn read(&mut self) -> Result<bool> {
        let read = self.socket.read_buf(&mut self.got);
        let read = tokio::time::timeout(wait::PATIENCE, read).await;
        Ok(read.context("nothing comes, and no end")?.unwrap_or(0) > 0)
    }
}

// === impl Said ===

impl Said {
    /// The value of the only header of this name; an error where there are several.
    pub fn header(&self, name: &str) -> Result<Option<&str>> {
        let prefix = format!("{name}: ");
        let mut values = self.head.lines().filter_map(|l| l.strip_prefix(&prefix));
        let first = values.next();
        ensure!(values.next().is_none(), "several {name}: {}", self.head);
        Ok(first)
    }

    /// The length that the head states.
    pub fn length(&self) -> Result<Option<usize>> {
        let length = self.header("content-length")?;
        Ok(length.map(str::parse).transpose()?)
    }

    /// `error.code` and `error.data.reason`.
    pub fn error(&self) -> Result<(i64, String)> {
        let message: Value = serde_json::from_str(&self.body)
            .with_context(|| format!("status {}: {}", self.status, self.body))?;
        let code = message["error"]["code"].as_i64();
        let reason = message["error"]["data"]["reason"].as_str();
        let reason = reason.unwrap_or_default().to_owned();
        Ok((code.with_context(|| message.to_string())?, reason))
    }
}
