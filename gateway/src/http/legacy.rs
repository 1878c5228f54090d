//! Clients of 2025-11-25: stateless, without tasks, through the same checks as all others.
//!
//! Their requests are given the envelope of 2026-07-28, with no capability declared in it, before
//! anything is decided on them. No session id is handed out, so that every replica serves alike.

use bytes::Bytes;
use hangar_relay::envelope::{self, Message, Reply, Request};
use hangar_relay::headers::MCP_PROTOCOL_VERSION;
use hangar_relay::legacy::client::{self, Asked};
use hangar_relay::legacy::{self, Error};
use hangar_relay::method::{self, Method};
use hangar_relay::wire::{self, Kind, WireError};
use http::{HeaderMap, StatusCode};

use super::rescue;
use super::trail::Trail;
use crate::flow::Answer;

/// What kind of client sent a request, and so how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Modern,
    Legacy,
    /// It begins, in this revision; what it is asked for it is `server/discover`.
    Beginning(&'static str),
}

/// How a body goes on.
pub(super) enum Taken {
    /// As this one, for this kind of client.
    On(Client, Bytes),
    Answered(Answer),
}

/// Methods of a client that may not have said yet which revision it speaks.
const BEFORE: [&str; 2] = ["initialize", "ping"];

/// Finds out what kind of client this is, and writes the request as one of 2026-07-28.
pub(super) fn take(
    body: Bytes,
    headers: &HeaderMap,
    trail: &mut Trail,
) -> Result<Taken, WireError> {
    let mut versions = headers.get_all(MCP_PROTOCOL_VERSION).iter();
    let spoken = match (versions.next(), versions.next()) {
        (None, _) => None,
        (Some(version), None) => match version.to_str().ok().and_then(legacy::version) {
            Some(version) => Some(version),
            None => return Ok(Taken::On(Client::Modern, body)),
        },
        // Said twice: refused with the headers of 2026-07-28.
        (Some(_), Some(_)) => return Ok(Taken::On(Client::Modern, body)),
    };
    let is_legacy = |request: &Request<'_>| {
        let may_be = spoken.is_some() || BEFORE.contains(&&*request.method);
        may_be && !client::has_envelope(request)
    };
    let request = match envelope::parse(&body) {
        Ok(Message::Request(request)) if is_legacy(&request) => request,
        // What is wrong with it is said where all messages are read.
        Ok(_) | Err(_) => return Ok(Taken::On(Client::Modern, body)),
    };
    trail.id = Some(request.id.to_owned());
    trail.method = method::label(&request.method);
    match client::asked(&request) {
        Some(Asked::Initialize(version)) => {
            let discover = client::discover(request.id).into();
            Ok(Taken::On(Client::Beginning(version), discover))
        }
        Some(Asked::Ping) => Ok(Taken::Answered(Answer::result_text(request.id, "{}"))),
        Some(Asked::Relayed(_)) => {
            let text = client::request(&request)
                .map_err(|error| Client::Legacy.refused(WireError::invalid_params(error)))?;
            Ok(Taken::On(Client::Legacy, text.into()))
        }
        None => {
            let mut error = WireError::from(Kind::UnknownMethod);
            if request.method == "logging/setLevel" {
                error = error.because("log levels are not kept, since there are no sessions here");
            }
            Err(Client::Legacy.refused(error))
        }
    }
}

// === impl Client ===

impl Client {
    pub fn is_modern(self) -> bool {
        self == Self::Modern
    }

    /// The answer, or the refusal, in the shape of this client's revision.
    pub(super) fn finished(self, answer: Result<Answer, WireError>, trail: &Trail) -> Answer {
        match answer {
            Ok(answer) => self.shaped(answer, trail.method),
            Err(error) => Answer::refused(trail.id.as_deref(), &self.refused(error)),
        }
    }

    fn shaped(self, answer: Answer, method: &str) -> Answer {
        if self.is_modern() || answer.body.is_empty() {
            return answer;
        }
        let Answer { status, body, .. } = &answer;
        let status = status_of(*status);
        match self.reshaped(body, method) {
            Ok(None) => Answer { status, ..answer },
            Ok(Some(body)) => Answer {
                status,
                body,
                is_held: false,
                ..answer
            },
            Err(error) => {
                let kind = kind_of(error);
                Answer {
                    status: StatusCode::OK,
                    body: refusal(body, error),
                    is_held: false,
                    outcome: rescue::outcome(kind),
                    reason: error.reason(),
                    ..answer
                }
            }
        }
    }

    /// The status of an error, which this revision sends under another one.
    fn refused(self, error: WireError) -> WireError {
        if self.is_modern() {
            return error;
        }
        WireError {
            status: match error.kind {
                Kind::EndpointNotFound => error.status,
                _ => status_of(error.status),
            },
            ..error
        }
    }

    fn reshaped(self, body: &Bytes, method: &str) -> Result<Option<Bytes>, Error> {
        let text = std::str::from_utf8(body).unwrap_or_default();
        let Some(id) = envelope::id_of(text) else {
            return Ok(None);
        };
        let (reply, _) = envelope::parse_reply(body, id).map_err(Error::Envelope)?;
        let Reply::Result(result) = reply else {
            return Ok(None);
        };
        let result = match self {
            Self::Modern => return Ok(None),
            Self::Beginning(version) => client::initialized(version, result)?,
            Self::Legacy => {
                let method = Method::parse(method).ok_or(Error::ResultType)?;
                client::result(method, result)?
            }
        };
        Ok(Some(wire::result_text(id, &result).into()))
    }
}

/// In this revision 404 means that a session is over, and 400 that a message was no message: an
/// error that answers a request comes under 200.
fn status_of(status: StatusCode) -> StatusCode {
    match status {
        StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST => StatusCode::OK,
        other => other,
    }
}

/// The answer to a result that this client cannot have.
fn refusal(body: &Bytes, error: Error) -> Bytes {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let error = WireError::from(kind_of(error)).because(error);
    wire::error(envelope::id_of(text), &error).into()
}

fn kind_of(error: Error) -> Kind {
    match error {
        Error::Asks => Kind::Denied,
        _ => Kind::UpstreamProtocol,
    }
}
