//! Several upstreams on one endpoint: whose a name is, whose a URI is, lists put together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use crate::contract::MAX_CURSOR_BYTES;
use crate::json::{self, Members};
use crate::list::{self, unprefixed};
use crate::method::Method;
use crate::surface::{Error, Page};

/// Where each upstream's list goes on, by name of the grant: a cursor of the gateway's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor(BTreeMap<String, String>);

/// A list that is put together from pages.
#[derive(Debug)]
pub struct Merging {
    out: String,
    is_empty: bool,
    next: Cursor,
}

/// How a URI fits an upstream's lists; the greater the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// A template begins with so many bytes of it.
    Template(usize),
    /// It is listed as it is.
    Listed,
}

/// Which upstream a URI belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    One(usize),
    None,
    Ambiguous,
}

/// Longest cursor of the gateway's own, in bytes of text.
pub const MAX_MERGED_CURSOR_BYTES: usize = 64 << 10;

/// Whose a shown name is, by position of its prefix, and the upstream's own name. The longest
/// prefix wins, and the empty one takes what no other does.
pub fn route<'p, 'n>(
    prefixes: impl IntoIterator<Item = &'p str>,
    shown: &'n str,
) -> Option<(usize, &'n str)> {
    let fitting = prefixes
        .into_iter()
        .enumerate()
        .filter_map(|(index, prefix)| Some((index, prefix.len(), unprefixed(prefix, shown)?)));
    fitting
        .max_by_key(|(_, length, _)| *length)
        .map(|(index, _, own)| (index, own))
}

/// How a URI fits a page of `resources/list` or `resources/templates/list`.
pub fn fit(page: &Page<'_>, uri: &str) -> Option<Fit> {
    let fits = page.items().iter().filter_map(|item| {
        let members = Members::of(item.raw).ok()?;
        if members.string("uri").as_deref() == Some(uri) {
            return Some(Fit::Listed);
        }
        let template = members.string("uriTemplate")?;
        if template == uri {
            return Some(Fit::Listed);
        }
        let (literal, _) = template.split_once('{')?;
        uri.starts_with(literal)
            .then_some(Fit::Template(literal.len()))
    });
    fits.max()
}

/// The upstream that fits best; two that fit equally are one too many.
pub fn choose(fits: &[Option<Fit>]) -> Chosen {
    let Some(best) = fits.iter().flatten().max() else {
        return Chosen::None;
    };
    let mut winners = fits
        .iter()
        .enumerate()
        .filter(|(_, fit)| fit.as_ref() == Some(best));
    match (winners.next(), winners.next()) {
        (Some((index, _)), None) => Chosen::One(index),
        _ => Chosen::Ambiguous,
    }
}

// === impl Cursor ===

impl Cursor {
    /// Reads a cursor that a client sent back; None where it is none of ours.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_MERGED_CURSOR_BYTES {
            return None;
        }
        let decoded = String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let members = Members::parse(&decoded).ok()?;
        let next = members
            .iter()
            .map(|(grant, raw)| Some((grant.to_string(), json::string(raw)?.into_owned())));
        let next = next.collect::<Option<BTreeMap<_, _>>>()?;
        let is_bounded = next.values().all(|next| next.len() <= MAX_CURSOR_BYTES);
        (!next.is_empty() && is_bounded).then_some(Self(next))
    }

    pub fn get(&self, grant: &str) -> Option<&str> {
        self.0.get(grant).map(String::as_str)
    }

    /// Names of the grants whose lists go on.
    pub fn grants(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn encode(&self) -> String {
        let mut out = String::from("{");
        for (grant, next) in &self.0 {
            if out.len() > 1 {
                out.push(',');
            }
            json::quote_into(&mut out, grant);
            out.push(':');
            json::quote_into(&mut out, next);
        }
        out.push('}');
        URL_SAFE_NO_PAD.encode(out)
    }
}

// === impl Merging ===

impl Merging {
    pub fn new(method: Method) -> Self {
        let items = method.items().unwrap_or_default();
        Self {
            out: format!(r#"{{"resultType":"complete","{items}":["#),
            is_empty: true,
            next: Cursor::default(),
        }
    }

    /// Takes in the page of one grant, each name as its client sees it. `is_shown` says of a
    /// prompt's shown name whether it leads back to this upstream; other items are all shown.
    pub fn push(
        &mut self,
        grant: &str,
        prefix: &str,
        page: &Page<'_>,
        is_shown: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        if let Some(next) = page.next_cursor()? {
            self.next.0.insert(grant.to_owned(), next.into_owned());
            if self.next.encode().len() > MAX_MERGED_CURSOR_BYTES {
                self.next.0.remove(grant);
                return Err(Error::Cursor);
            }
        }
        for item in page.items() {
            let shown: Option<Cow<'_, str>> = item.name();
            if shown.is_some_and(|name| !is_shown(&list::prefixed(prefix, &name))) {
                continue;
            }
            if !std::mem::take(&mut self.is_empty) {
                self.out.push(',');
            }
            self.out.push_str(&item.shown(prefix));
        }
        Ok(())
    }

    /// The result; `unavailable` are names of grants whose upstreams are missing in it.
    pub fn finish(self, unavailable: &[&str]) -> Box<RawValue> {
        let Self {
            mut out,
            is_empty: _,
            next,
        } = self;
        out.push_str("],");
        if !next.0.is_empty() {
            out.push_str(r#""nextCursor":"#);
            json::quote_into(&mut out, &next.encode());
            out.push(',');
        }
        list::finish(out, unavailable)
    }
}

#[cfg(test)]
mod tests;
