//! The routing headers: they mirror the body, are checked against it, and decide nothing.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::PROTOCOL_VERSION;
use crate::method::Method;

/// Why the headers of a request are refused; always -32020 with HTTP 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0} is there twice")]
    Duplicate(&'static str),
    #[error("{0} is neither plain text nor one valid base64 wrapper")]
    Malformed(&'static str),
    #[error("{0} differs from the body")]
    Mismatch(&'static str),
}

/// The three routing headers as sent, each at most once.
pub struct Routing {
    version: Option<String>,
    method: Option<String>,
    name: Option<String>,
}

/// Whether `tasks/*` may come without `Mcp-Name`: a client in wide use leaves it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskName {
    #[default]
    MayBeAbsent,
    Required,
}

pub const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

const VERSION: &str = "MCP-Protocol-Version";
const METHOD: &str = "Mcp-Method";
const NAME: &str = "Mcp-Name";
const WRAPPER_START: &str = "=?base64?";
const WRAPPER_END: &str = "?=";

/// The routing headers of a request to an upstream.
pub fn upstream(method: Method, name: Option<&str>) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = vec![
        (
            MCP_PROTOCOL_VERSION,
            HeaderValue::from_static(PROTOCOL_VERSION),
        ),
        (MCP_METHOD, HeaderValue::from_static(method.as_str())),
    ];
    headers.extend(name.map(|name| (MCP_NAME, encode(name))));
    headers
}

/// A value as a header holds it: plain where that is safe, otherwise wrapped in base64.
pub fn encode(value: &str) -> HeaderValue {
    let text = if is_plain(value) && !looks_wrapped(value) {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(format!(
            "{WRAPPER_START}{}{WRAPPER_END}",
            STANDARD.encode(value)
        ))
    };
    // Both forms are printable ASCII, so this cannot fail; an empty value mirrors nothing.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

/// The value that a header holds; None where it is neither plain nor one valid wrapper.
pub fn decode(value: &HeaderValue) -> Option<String> {
    let text = std::str::from_utf8(value.as_bytes()).ok()?;
    if !is_plain(text) {
        return None;
    }
    if !looks_wrapped(text) {
        return Some(text.to_owned());
    }
    // The markers are case-sensitive: another spelling is no wrapper and no safe plain text.
    let payload = text
        .strip_prefix(WRAPPER_START)?
        .strip_suffix(WRAPPER_END)?;
    if payload.is_empty() {
        return None;
    }
    String::from_utf8(STANDARD.decode(payload).ok()?).ok()
}

/// The only value of a header; an error names it where it is there twice.
pub(crate) fn single<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'h HeaderValue>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(()),
    }
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing(_) => "header_missing",
            Self::Duplicate(_) => "header_duplicate",
            Self::Malformed(_) => "header_malformed",
            Self::Mismatch(_) => "header_mismatch",
        }
    }
}

// === impl Routing ===

impl Routing {
    pub fn read(headers: &HeaderMap) -> Result<Self, Error> {
        let text = |name: &HeaderName, shown: &'static str| {
            let value = single(headers, name).map_err(|()| Error::Duplicate(shown))?;
            value
                .map(|value| plain(value).ok_or(Error::Malformed(shown)))
                .transpose()
        };
        let name = single(headers, &MCP_NAME).map_err(|()| Error::Duplicate(NAME))?;
        Ok(Self {
            version: text(&MCP_PROTOCOL_VERSION, VERSION)?,
            method: text(&MCP_METHOD, METHOD)?,
            name: name
                .map(|value| decode(value).ok_or(Error::Malformed(NAME)))
                .transpose()?,
        })
    }

    /// Compares `Mcp-Method`; for methods that are not built this is all that is compared.
    pub fn agree_on_method(&self, method: &str) -> Result<(), Error> {
        match self.method.as_deref() {
            Some(sent) if sent == method => Ok(()),
            Some(_) => Err(Error::Mismatch(METHOD)),
            None => Err(Error::Missing(METHOD)),
        }
    }

    /// Compares all three with the body: `version` of `_meta`, and the name, URI or taskId.
    pub fn agree(
        &self,
        method: Method,
        version: &str,
        name: Option<&str>,
        task_name: TaskName,
    ) -> Result<(), Error> {
        match self.version.as_deref() {
            Some(sent) if sent == version => {}
            Some(_) => return Err(Error::Mismatch(VERSION)),
            None => return Err(Error::Missing(VERSION)),
        }
        self.agree_on_method(method.as_str())?;
        match (self.name.as_deref(), name) {
            (Some(sent), Some(name)) if sent == name => Ok(()),
            (None, None) => Ok(()),
            (None, Some(_)) if method.is_task() && task_name == TaskName::MayBeAbsent => Ok(()),
            (None, Some(_)) => Err(Error::Missing(NAME)),
            // Nothing to mirror: a value can only be a claim that the body does not make.
            (Some(_), _) => Err(Error::Mismatch(NAME)),
        }
    }
}

impl fmt::Debug for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routing").finish_non_exhaustive()
    }
}

fn plain(value: &HeaderValue) -> Option<String> {
    let text = std::str::from_utf8(value.as_bytes()).ok()?;
    is_plain(text).then(|| text.to_owned())
}

/// Printable ASCII without spaces at its ends.
fn is_plain(text: &str) -> bool {
    let is_printable = text.bytes().all(|byte| (0x20..=0x7e).contains(&byte));
    is_printable && !text.starts_with(' ') && !text.ends_with(' ')
}

fn looks_wrapped(text: &str) -> bool {
    let starts = text
        .get(..WRAPPER_START.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(WRAPPER_START));
    starts && text.ends_with(WRAPPER_END)
}

#[cfg(test)]
mod tests;
