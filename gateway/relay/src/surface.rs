//! Results of the methods that are relayed without a ledger: what they may be, and the few members
//! of them that are the gateway's to say.
//!
//! Guarantees: every byte outside a governed member is the upstream's; a result in which nothing
//! changes is not copied.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::contract::MAX_CURSOR_BYTES;
use crate::json::{self, Members};
use crate::list::prefixed;
use crate::method::Method;
use crate::{rewrite, task};

/// Why a result breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("result cannot be read")]
    Json(#[source] json::Error),
    #[error("resultType is missing, or none of this method's")]
    ResultType,
    #[error("result has no list of {0}")]
    NoItems(&'static str),
    #[error("an item of the list has no name")]
    Name,
    #[error("nextCursor is no string or too long")]
    Cursor,
}

/// One page of a list, as its upstream sent it.
pub struct Page<'a> {
    result: &'a RawValue,
    members: Members<'a>,
    items: Vec<Item<'a>>,
}

/// One item of a page.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    /// The whole object.
    pub raw: &'a RawValue,
    /// Its member `name`, of prompts alone.
    name: Option<&'a RawValue>,
}

type Edit = (Range<usize>, String);

/// Most items of one page.
pub const MAX_ITEMS: usize = 4096;

const NAMES: [&str; 12] = [
    "resultType",
    "inputRequests",
    "requestState",
    "ttlMs",
    "cacheScope",
    "nextCursor",
    "prompts",
    "resources",
    "resourceTemplates",
    "contents",
    "messages",
    "completion",
];
const TTL: &str = "ttlMs";
const SCOPE: &str = "cacheScope";
const PRIVATE: &str = r#""private""#;

/// The result as a client may have it: names of prompts with the prefix, and nothing that a shared
/// cache may keep.
pub fn govern<'a>(
    method: Method,
    result: &'a RawValue,
    prefix: &str,
) -> Result<Cow<'a, str>, Error> {
    if method.items().is_some() {
        return Ok(Page::read(method, result)?.governed(prefix));
    }
    let members = complete_or_asking(method, result)?;
    let is_complete = members.string("resultType").as_deref() == Some("complete");
    if method == Method::ResourcesRead && is_complete {
        let mut edits = Vec::new();
        set(&mut edits, result.get(), &members, &[(SCOPE, PRIVATE)]);
        return Ok(rewrite::splice(result.get(), edits));
    }
    Ok(Cow::Borrowed(result.get()))
}

/// The members of a result whose `resultType` its method may have.
pub fn complete_or_asking(method: Method, result: &RawValue) -> Result<Members<'_>, Error> {
    let members = Members::of(result).map_err(Error::Json)?;
    members.guard(&NAMES).map_err(Error::Json)?;
    task::refuse_handle(&members).map_err(|_| Error::ResultType)?;
    match members.string("resultType").as_deref() {
        Some("complete") => Ok(members),
        Some("input_required") if method.may_ask() => Ok(members),
        Some(_) | None => Err(Error::ResultType),
    }
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Json(error) => error.reason(),
            Self::ResultType => "result_type",
            Self::NoItems(_) => "no_items",
            Self::Name => "item_name",
            Self::Cursor => "cursor",
        }
    }
}

// === impl Page ===

impl<'a> Page<'a> {
    /// Reads a result of a method that lists something.
    pub fn read(method: Method, result: &'a RawValue) -> Result<Self, Error> {
        let members = complete_or_asking(method, result)?;
        let name = method.items().unwrap_or_default();
        let items = members.get(name).ok_or(Error::NoItems(name))?;
        let items = json::array(items, MAX_ITEMS).map_err(|_| Error::NoItems(name))?;
        let items = items.into_iter().map(|raw| Item::read(method, raw));
        Ok(Self {
            result,
            items: items.collect::<Result<_, _>>()?,
            members,
        })
    }

    pub fn items(&self) -> &[Item<'a>] {
        &self.items
    }

    /// The cursor of the next page, None at the end.
    pub fn next_cursor(&self) -> Result<Option<Cow<'a, str>>, Error> {
        let Some(raw) = self.members.get("nextCursor") else {
            return Ok(None);
        };
        if json::is_null(raw) {
            return Ok(None);
        }
        let cursor = json::string(raw).ok_or(Error::Cursor)?;
        if cursor.len() > MAX_CURSOR_BYTES {
            return Err(Error::Cursor);
        }
        Ok(Some(cursor))
    }

    /// The whole result, for the client of this upstream alone.
    fn governed(&self, prefix: &str) -> Cow<'a, str> {
        let text = self.result.get();
        let mut edits: Vec<Edit> = Vec::new();
        if !prefix.is_empty() {
            edits.extend(self.items.iter().filter_map(|item| {
                let name = item.name?;
                let shown = json::quote(&prefixed(prefix, &json::string(name)?));
                rewrite::edit(text, name, shown)
            }));
        }
        set(
            &mut edits,
            text,
            &self.members,
            &[(TTL, "0"), (SCOPE, PRIVATE)],
        );
        rewrite::splice(text, edits)
    }
}

impl std::fmt::Debug for Page<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page")
            .field("items", &self.items.len())
            .finish_non_exhaustive()
    }
}

// === impl Item ===

impl<'a> Item<'a> {
    fn read(method: Method, raw: &'a RawValue) -> Result<Self, Error> {
        if method != Method::PromptsList {
            return Ok(Self { raw, name: None });
        }
        let members = Members::of(raw).map_err(Error::Json)?;
        members.guard(&["name"]).map_err(Error::Json)?;
        let name = members.get("name").ok_or(Error::Name)?;
        match json::string(name) {
            Some(text) if !text.is_empty() => Ok(Self {
                raw,
                name: Some(name),
            }),
            Some(_) | None => Err(Error::Name),
        }
    }

    /// The prompt's own name.
    pub fn name(&self) -> Option<Cow<'a, str>> {
        self.name.and_then(json::string)
    }

    /// The item under the name that its client sees.
    pub fn shown(&self, prefix: &str) -> Cow<'a, str> {
        let text = self.raw.get();
        match (self.name, self.name()) {
            (Some(raw), Some(name)) if !prefix.is_empty() => {
                rewrite::replace(text, raw, json::quote(&prefixed(prefix, &name)))
            }
            _ => Cow::Borrowed(text),
        }
    }
}

impl std::fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Item(..)")
    }
}

/// Sets members of an object that has others: replaced where they are, put behind where not.
fn set(edits: &mut Vec<Edit>, text: &str, members: &Members<'_>, wanted: &[(&str, &str)]) {
    let mut more = String::new();
    for (name, value) in wanted {
        match members.get(name) {
            Some(raw) if raw.get() == *value => {}
            Some(raw) => edits.extend(rewrite::edit(text, raw, (*value).to_owned())),
            None => {
                more.push(',');
                json::quote_into(&mut more, name);
                more.push(':');
                more.push_str(value);
            }
        }
    }
    if !more.is_empty() {
        let end = text.len() - 1;
        edits.push((end..end, more));
    }
}

#[cfg(test)]
mod tests;
