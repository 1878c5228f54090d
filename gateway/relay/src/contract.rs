//! Tool contracts: pages of `tools/list` read strictly, and the digest of each tool.
//!
//! The digest is SHA-256 over the RFC 8785 form of the tool as the upstream sent it, without
//! `execution`, which depends on the era. Unknown members count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hangar_wire::Sha256Hex;
use serde_json::value::RawValue;

use crate::json::{self, Members, Tree};

/// Why a list of tools is no contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("page cannot be read")]
    Page(#[source] json::Error),
    #[error("result has no list of tools")]
    NoTools,
    #[error("tool cannot be read")]
    Tool(#[source] json::Error),
    #[error("tool has no name of 1 to {MAX_NAME_BYTES} bytes")]
    Name,
    #[error("two tools have one name")]
    DuplicateName,
    #[error("list has more than {MAX_TOOLS} tools")]
    TooManyTools,
    #[error("cursor is no string, or came before")]
    Cursor,
}

/// One tool as its upstream describes it.
#[derive(Clone)]
pub struct Tool {
    pub name: String,
    pub raw: Box<RawValue>,
    pub digest: Sha256Hex,
}

/// A list of tools that is put together page by page.
#[derive(Debug, Default)]
pub struct Listing {
    tools: BTreeMap<String, Tool>,
    cursors: BTreeSet<String>,
}

/// Most tools of one upstream.
pub const MAX_TOOLS: usize = 4096;
/// Longest name of a tool at its upstream, in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// Longest cursor, in bytes.
pub const MAX_CURSOR_BYTES: usize = 4096;

/// Digest of a tool's contract. The same bytes give the same digest, so that a caller may keep
/// the last one beside the bytes it was made from.
pub fn digest(tool: &RawValue) -> Result<Sha256Hex, Error> {
    match Tree::parse(tool).map_err(Error::Tool)? {
        Tree::Object(mut members) => {
            members.remove("execution");
            Tree::Object(members).hash().map_err(Error::Tool)
        }
        _ => Err(Error::Tool(json::Error::NotObject)),
    }
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Page(error) | Self::Tool(error) => error.reason(),
            Self::NoTools => "no_tools",
            Self::Name => "tool_name",
            Self::DuplicateName => "duplicate_tool",
            Self::TooManyTools => "too_many_tools",
            Self::Cursor => "cursor",
        }
    }
}

// === impl Tool ===

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool")
            .field("name", &self.name)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

// === impl Listing ===

impl Listing {
    /// Takes in the result of one `tools/list`; returns the cursor of the next page, None at the
    /// end.
    pub fn push(&mut self, result: &RawValue) -> Result<Option<String>, Error> {
        self.push_with(result, |_, raw| digest(raw))
    }

    /// The same with digests made by `digest_of` (name, raw tool), which may remember them.
    pub fn push_with(
        &mut self,
        result: &RawValue,
        mut digest_of: impl FnMut(&str, &RawValue) -> Result<Sha256Hex, Error>,
    ) -> Result<Option<String>, Error> {
        let members = Members::of(result).map_err(Error::Page)?;
        members
            .guard(&["tools", "nextCursor"])
            .map_err(Error::Page)?;
        let tools = members.get("tools").ok_or(Error::NoTools)?;
        let room = MAX_TOOLS - self.tools.len();
        let tools = json::array(tools, room).map_err(|error| match error {
            json::Error::TooMany => Error::TooManyTools,
            _ => Error::NoTools,
        })?;
        for raw in tools {
            let name = name(raw)?;
            let tool = Tool {
                digest: digest_of(&name, raw)?,
                raw: raw.to_owned(),
                name: name.clone(),
            };
            if self.tools.insert(name, tool).is_some() {
                return Err(Error::DuplicateName);
            }
        }
        self.next_cursor(&members)
    }

    /// The tools by name.
    pub fn finish(self) -> BTreeMap<String, Tool> {
        self.tools
    }

    /// Refuses a cursor that came before: such a list never ends.
    fn next_cursor(&mut self, members: &Members<'_>) -> Result<Option<String>, Error> {
        let Some(raw) = members.get("nextCursor").filter(|raw| !json::is_null(raw)) else {
            return Ok(None);
        };
        let cursor = json::string(raw).ok_or(Error::Cursor)?.into_owned();
        // As many pages as tools at most: empty pages must not go on for ever.
        let is_new = self.cursors.len() < MAX_TOOLS && self.cursors.insert(cursor.clone());
        if !is_new || cursor.len() > MAX_CURSOR_BYTES {
            return Err(Error::Cursor);
        }
        Ok(Some(cursor))
    }
}

fn name(tool: &RawValue) -> Result<String, Error> {
    let members = Members::of(tool).map_err(Error::Tool)?;
    members.guard(&["name"]).map_err(Error::Tool)?;
    let name = members.string("name").ok_or(Error::Name)?;
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(Error::Name);
    }
    Ok(name.into_owned())
}

#[cfg(test)]
mod tests;
