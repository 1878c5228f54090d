//! Tool contracts: pages of `tools/list` read strictly, and the digest of each tool.
//!
//! The digest is SHA-256 over the RFC 8785 form of the tool as the upstream sent it, without
//! `execution`, which depends on the era. Unknown members count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use hangar_wire::Sha256Hex;
use serde_json::value::RawValue;

use crate::json::{self, Members, Tree};
use crate::mirror::{self, Mirrors};

mod diff;

pub use diff::{Change, What, diff};

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
    /// Arguments that go into headers; an error means that the tool must not be offered (SEP-2243).
    pub mirrors: Result<Mirrors, mirror::Error>,
}

/// All tools of an upstream.
#[derive(Debug, Default)]
pub struct Tools {
    by_name: BTreeMap<String, Arc<Tool>>,
    /// Hash of the list's text where it was one page.
    page: Option<Sha256Hex>,
}

/// A list of tools that is put together page by page.
#[derive(Debug, Default)]
pub struct Listing {
    tools: BTreeMap<String, Arc<Tool>>,
    cursors: BTreeSet<String>,
    /// What the list was before: what stands there byte for byte is not read again.
    earlier: Option<Arc<Tools>>,
    pages: usize,
    page: Option<Sha256Hex>,
}

/// Most tools of one upstream.
pub const MAX_TOOLS: usize = 4096;
/// Longest name of a tool at its upstream, in bytes.
pub const MAX_NAME_BYTES: usize = 128;
/// Longest cursor, in bytes.
pub const MAX_CURSOR_BYTES: usize = 4096;

/// Digest of a tool's contract.
pub fn digest(tool: &RawValue) -> Result<Sha256Hex, Error> {
    canonical(tool).map(|bytes| Sha256Hex::of(&bytes))
}

/// What the digest is over.
pub fn canonical(tool: &RawValue) -> Result<Vec<u8>, Error> {
    contract(tool)?.canonical().map_err(Error::Tool)
}

/// The members of a tool that count.
fn contract(tool: &RawValue) -> Result<Tree, Error> {
    match Tree::parse(tool).map_err(Error::Tool)? {
        Tree::Object(mut members) => {
            members.remove("execution");
            Ok(Tree::Object(members))
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

// === impl Tools ===

impl Tools {
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name).map(AsRef::as_ref)
    }

    /// The tools in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.by_name.values().map(AsRef::as_ref)
    }
}

// === impl Listing ===

impl Listing {
    /// A list that may be what it was before.
    pub fn after(earlier: Option<Arc<Tools>>) -> Self {
        Self {
            earlier,
            ..Self::default()
        }
    }

    /// Takes in the result of one `tools/list`; returns the cursor of the next page, None at the
    /// end.
    pub fn push(&mut self, result: &RawValue) -> Result<Option<String>, Error> {
        self.pages += 1;
        if self.pages == 1 {
            let page = Sha256Hex::of(result.get().as_bytes());
            self.page = Some(page);
            if self.repeats(page) {
                return Ok(None);
            }
        }
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
            let tool = match self.known(&name, raw) {
                Some(tool) => tool,
                None => Arc::new(Tool {
                    digest: digest(raw)?,
                    mirrors: Mirrors::of(raw),
                    raw: raw.to_owned(),
                    name: name.clone(),
                }),
            };
            if self.tools.insert(name, tool).is_some() {
                return Err(Error::DuplicateName);
            }
        }
        self.next_cursor(&members)
    }

    /// The whole list.
    pub fn finish(self) -> Arc<Tools> {
        let Self {
            tools,
            earlier,
            pages,
            page,
            cursors: _,
        } = self;
        let page = page.filter(|_| pages == 1);
        match earlier {
            Some(earlier) if page.is_some() && earlier.page == page => earlier,
            _ => Arc::new(Tools {
                by_name: tools,
                page,
            }),
        }
    }

    /// Whether this only page is the earlier list's.
    fn repeats(&self, page: Sha256Hex) -> bool {
        let earlier = self.earlier.as_ref();
        earlier.is_some_and(|earlier| earlier.page == Some(page))
    }

    fn known(&self, name: &str, raw: &RawValue) -> Option<Arc<Tool>> {
        let tool = self.earlier.as_ref()?.by_name.get(name)?;
        (tool.raw.get() == raw.get()).then(|| Arc::clone(tool))
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
