//! Lists and `server/discover` of several upstreams.

use bytes::Bytes;
use futures::future::join_all;
use hangar_relay::announce::{self, Announced, Said};
use hangar_relay::envelope::Reply;
use hangar_relay::merge::{Cursor, Merging};
use hangar_relay::surface::{self, Page};
use hangar_relay::wire::{Kind, WireError};
use hangar_relay::{list, rewrite};

use super::{Merged, PATIENCE};
use crate::flow::list::{approved, no_cursor, shown};
use crate::flow::relay::breach;
use crate::flow::{Answer, Call, discover, routing};
use crate::http::rescue;

/// What is missing in an answer, and why the first of it is.
struct Missing<'a> {
    correlation: &'a str,
    names: Vec<&'a str>,
    first: Option<WireError>,
}

// === impl Merged ===

impl Merged<'_> {
    pub(super) async fn discover(&self, call: &Call<'_>) -> Result<Answer, WireError> {
        let asked = self
            .calls
            .iter()
            .map(|call| ask(call, Bytes::clone(call.body)));
        let replies = join_all(asked).await;
        let mut missing = self.missing(call);
        let mut said = Vec::with_capacity(self.calls.len());
        for (call, reply) in self.calls.iter().zip(&replies) {
            let name = call.grant.object.name.as_str();
            let message = reply.as_ref().map_err(WireError::clone);
            match message.and_then(|message| announced(call, message)) {
                Ok(announced) => said.push(Said {
                    heading: Some(name),
                    announced,
                    tasks: discover::tasks(call),
                }),
                Err(error) => missing.add(name, error),
            }
        }
        let missing = missing.unless_all(said.len())?;
        let answer = announce::discover(&said, &missing);
        Ok(Answer::result(call.request.id, &answer))
    }

    pub(super) async fn tools(&self, call: &Call<'_>) -> Result<Answer, WireError> {
        if call.params.cursor.is_some() {
            return Err(no_cursor());
        }
        let asked = self.calls.iter().map(async |call| {
            call.admit()?;
            tokio::time::timeout(PATIENCE, approved(call))
                .await
                .unwrap_or_else(|_| Err(WireError::unavailable(None)))
        });
        let lists = join_all(asked).await;
        let prefixes = self.prefixes();
        let mut missing = self.missing(call);
        let mut answered = 0;
        let mut all = Vec::new();
        for (index, (call, list)) in self.calls.iter().zip(&lists).enumerate() {
            match list {
                Ok((catalogue, names)) => {
                    answered += 1;
                    let tools = shown(call, catalogue, names);
                    all.extend(tools.filter(|it| Self::is_own(&prefixes, index, &it.name)));
                }
                Err(error) => missing.add(&call.grant.object.name, error.clone()),
            }
        }
        let missing = missing.unless_all(answered)?;
        Ok(Answer::result(call.request.id, &list::tools(all, &missing)))
    }

    /// One page of every upstream that has another one.
    pub(super) async fn list(&self, call: &Call<'_>) -> Result<Answer, WireError> {
        let cursor = match call.params.cursor.as_deref() {
            Some(text) => Some(self.cursor(text)?),
            None => None,
        };
        let goes_on = |call: &Call<'_>| {
            let Some(cursor) = &cursor else {
                return Some(Bytes::clone(call.body));
            };
            let next = cursor.get(&call.grant.object.name)?;
            let raw = call.params.members.get("cursor")?;
            let body = rewrite::with_text(call.request.body, raw, next);
            Some(body.into_owned().into())
        };
        let asked = self.calls.iter().enumerate();
        let asked = asked.filter_map(|(index, call)| Some((index, call, goes_on(call)?)));
        let asked = asked.map(async |(index, call, body)| (index, call, ask(call, body).await));
        let prefixes = self.prefixes();
        let mut missing = match &cursor {
            None => self.missing(call),
            Some(_) => Missing {
                names: Vec::new(),
                ..self.missing(call)
            },
        };
        let mut merging = Merging::new(call.method);
        let (mut answered, mut silent) = (0, 0);
        for (index, call, reply) in join_all(asked).await {
            let name = call.grant.object.name.as_str();
            let is_own = |shown: &str| Self::is_own(&prefixes, index, shown);
            let taken = match reply {
                Ok(message) => take(call, &message, |page| {
                    merging.push(name, call.prefix, page, is_own)
                }),
                Err(error) => Err(error),
            };
            match taken {
                Ok(true) => answered += 1,
                Ok(false) => silent += 1,
                Err(error) if cursor.is_some() && error.kind == Kind::InvalidParams => {
                    return Err(no_cursor());
                }
                Err(error) => missing.add(name, error),
            }
        }
        if answered == 0 && silent > 0 && missing.names.is_empty() {
            return Err(Kind::UnknownMethod.into());
        }
        let missing = missing.unless_all(answered + silent)?;
        let answer = merging.finish(&missing);
        Ok(Answer::result(call.request.id, &answer))
    }

    fn cursor(&self, text: &str) -> Result<Cursor, WireError> {
        let cursor = Cursor::parse(text).ok_or_else(no_cursor)?;
        let is_granted = |name: &str| {
            let mut calls = self.calls.iter();
            calls.any(|call| call.grant.object.name == name)
        };
        if cursor.grants().all(is_granted) {
            Ok(cursor)
        } else {
            Err(no_cursor())
        }
    }

    fn missing<'c>(&'c self, call: &Call<'c>) -> Missing<'c> {
        Missing {
            correlation: call.correlation,
            names: self.absent.to_vec(),
            first: None,
        }
    }
}

// === impl Missing ===

impl<'a> Missing<'a> {
    fn add(&mut self, name: &'a str, error: WireError) {
        tracing::info!(
            correlation = self.correlation,
            grant = name,
            reason = error.reason,
            "missing in a merged answer"
        );
        self.names.push(name);
        self.first.get_or_insert(error);
    }

    /// The names, or the first error where nobody answered.
    fn unless_all(mut self, answered: usize) -> Result<Vec<&'a str>, WireError> {
        if answered == 0 {
            let error = self.first;
            return Err(error.unwrap_or_else(|| WireError::unavailable(None)));
        }
        self.names.sort_unstable();
        Ok(self.names)
    }
}

/// Asks one of several upstreams, within the time that the others may be made to wait.
async fn ask(call: &Call<'_>, body: Bytes) -> Result<Bytes, WireError> {
    call.admit()?;
    let headers = routing(call.method, None, Vec::new());
    call.exchange_within(headers, body, PATIENCE)
        .await
        .map_err(|failure| rescue::exchange(&failure))
}

/// Reads a page and hands it over; false where the upstream has no such method, and so no items.
fn take(
    call: &Call<'_>,
    message: &Bytes,
    push: impl FnOnce(&Page<'_>) -> Result<(), surface::Error>,
) -> Result<bool, WireError> {
    let result = match call.read(message)?.reply {
        Reply::Result(result) => result,
        Reply::Error(error) if error.code == Kind::UnknownMethod.code() => return Ok(false),
        Reply::Error(error) if error.code == Kind::InvalidParams.code() => {
            return Err(Kind::InvalidParams.into());
        }
        Reply::Error(_) => return Err(WireError::unavailable(None)),
    };
    Page::read(call.method, result)
        .and_then(|page| push(&page))
        .map_err(|error| breach(call, result, error))?;
    Ok(true)
}

fn announced<'m>(call: &Call<'_>, message: &'m Bytes) -> Result<Announced<'m>, WireError> {
    match call.read(message)?.reply {
        Reply::Result(result) => {
            Announced::read(result).map_err(|error| breach(call, result, error))
        }
        Reply::Error(_) => Err(WireError::unavailable(None)),
    }
}
