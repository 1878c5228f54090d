//! JSON text as it came: one object level with raw members, and a tree for what is hashed.
//!
//! `serde_json::Value` is used nowhere in this crate: it keeps the last of two equal keys, and
//! with raw values on it turns an object with a private key into what that key holds, so that
//! two different contracts could have one digest.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

mod skim;
mod tree;

pub use tree::{Tree, canonical_hash};
pub(crate) use tree::{integer, unsigned};

/// Why a text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("text is not UTF-8")]
    NotUtf8,
    #[error("text is not JSON")]
    Syntax,
    #[error("value is no object")]
    NotObject,
    #[error("value is no array")]
    NotArray,
    #[error("object has the same key twice")]
    Duplicate,
    /// A key that another reader may take for a governed one (`TaskID` for `taskId`).
    #[error("object has a key that differs from a governed one in case only")]
    Lookalike,
    /// More than [`MAX_MEMBERS`], or than the bound of an array.
    #[error("object or array has too many members")]
    TooMany,
    #[error("nesting is deeper than {MAX_DEPTH}")]
    TooDeep,
    /// Doubles cannot tell it from its neighbours, so a digest over it proves nothing.
    #[error("integer is beyond 2^53")]
    BigInteger,
    #[error("object has a key that belongs to the JSON library")]
    PrivateKey,
}

/// The members of one object in their order, values untouched.
///
/// Guarantees: no key is there twice, however it was escaped.
#[derive(Clone, Default)]
pub struct Members<'a> {
    entries: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// A string, borrowed when it has no escape.
struct Text<'a>(Cow<'a, str>);

/// Reads one value more than the bound, to see that it is passed; skips the rest.
struct AtMost(usize);

/// Deepest nesting of objects and arrays in a request.
pub const MAX_DEPTH: usize = 64;
/// Most members of an object that is read.
pub const MAX_MEMBERS: usize = 4096;

/// Refuses nesting beyond [`MAX_DEPTH`] before anything is parsed; counts brackets outside
/// strings, so a text that is not JSON may pass and is left to the parser.
pub fn check_depth(text: &str) -> Result<(), Error> {
    let mut depth = 0_usize;
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(Error::TooDeep);
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// The string that this value is.
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    if !raw.get().starts_with('"') {
        return None;
    }
    serde_json::from_str::<Text<'_>>(raw.get())
        .ok()
        .map(|text| text.0)
}

/// The values of an array of at most `most`; never holds more than these.
pub fn array(raw: &RawValue, most: usize) -> Result<Vec<&RawValue>, Error> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    let values = AtMost(most).deserialize(&mut deserializer);
    let values = values.map_err(|_| Error::NotArray)?;
    if values.len() > most {
        return Err(Error::TooMany);
    }
    Ok(values)
}

/// Whether this value is an object; says nothing of its members.
pub fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// Whether this value is `null`.
pub fn is_null(raw: &RawValue) -> bool {
    raw.get() == "null"
}

/// A text as a JSON string.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quote_into(&mut quoted, text);
    quoted
}

/// Appends a text as a JSON string.
pub fn quote_into(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control @ '\0'..'\x20' => {
                out.push_str("\\u00");
                out.push_str(&hangar_wire::hex(&[control as u8]));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// A text that this crate has put together, as a raw value.
///
/// Guarantees: what is not JSON becomes `null`, never a broken message.
pub fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Where `inner` lies in `outer`, when it is a part of it.
pub(crate) fn span(outer: &str, inner: &str) -> Option<Range<usize>> {
    let start = (inner.as_ptr() as usize).checked_sub(outer.as_ptr() as usize)?;
    let end = start.checked_add(inner.len())?;
    (end <= outer.len()).then_some(start..end)
}

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotUtf8 => "not_utf8",
            Self::Syntax => "syntax",
            Self::NotObject => "not_object",
            Self::NotArray => "not_array",
            Self::Duplicate => "duplicate_key",
            Self::Lookalike => "lookalike_key",
            Self::TooMany => "too_many_members",
            Self::TooDeep => "too_deep",
            Self::BigInteger => "big_integer",
            Self::PrivateKey => "private_key",
        }
    }
}

// === impl Members ===

impl<'a> Members<'a> {
    /// Reads one object level.
    pub fn parse(text: &'a str) -> Result<Self, Error> {
        let (mut entries, mut overflow, mut is_text) = (Vec::with_capacity(8), false, true);
        let is_object = skim::object(text, |key, value| {
            if entries.len() == MAX_MEMBERS {
                overflow = true;
            } else if let Some(key) = unquoted(key) {
                entries.push((key, value));
            } else {
                is_text = false;
            }
        });
        if !is_object {
            return Err(no_object(text));
        }
        if !is_text {
            return Err(Error::Syntax);
        }
        if overflow {
            return Err(Error::TooMany);
        }
        let members = Self { entries };
        if members.has_duplicates() {
            return Err(Error::Duplicate);
        }
        Ok(members)
    }

    /// Reads one object level of a raw value.
    pub fn of(raw: &'a RawValue) -> Result<Self, Error> {
        Self::parse(raw.get())
    }

    /// Refuses keys that differ from one of `names` in case only: some JSON libraries match
    /// members without regard to case, and would read another value than the one judged.
    pub fn guard(&self, names: &[&str]) -> Result<(), Error> {
        let lookalike = |key: &str| names.iter().any(|name| *name != key && alike(name, key));
        if self.entries.iter().any(|(key, _)| lookalike(key)) {
            return Err(Error::Lookalike);
        }
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.entries
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| *value)
    }

    /// A member that is a string.
    pub fn string(&self, name: &str) -> Option<Cow<'a, str>> {
        self.get(name).and_then(string)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Cow<'a, str>, &'a RawValue)> {
        self.entries.iter().map(|(key, value)| (key, *value))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// This object without one member; the other values keep their bytes.
    pub(crate) fn without(&self, name: &str) -> String {
        let mut out = String::from("{");
        for (key, value) in self.iter().filter(|(key, _)| *key != name) {
            if out.len() > 1 {
                out.push(',');
            }
            quote_into(&mut out, key);
            out.push(':');
            out.push_str(value.get());
        }
        out.push('}');
        out
    }

    fn has_duplicates(&self) -> bool {
        // A hostile object has as many keys as fit: sorting keeps that cheap.
        let mut keys: Vec<&str> = self.entries.iter().map(|(key, _)| &**key).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }
}

/// Shows the keys alone: values are the client's or the upstream's.
impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.entries.iter().map(|(key, _)| key))
            .finish()
    }
}

// === impl Text ===

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(value)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(value.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

// === impl AtMost ===

impl<'de> DeserializeSeed<'de> for AtMost {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for AtMost {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while values.len() <= self.0 {
            match seq.next_element()? {
                Some(value) => values.push(value),
                None => return Ok(values),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(values)
    }
}

/// What a string literal says.
fn unquoted(literal: &str) -> Option<Cow<'_, str>> {
    let inner = literal.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        return serde_json::from_str(literal).ok().map(|Text(text)| text);
    }
    Some(Cow::Borrowed(inner))
}

/// Why a text is none.
fn no_object(text: &str) -> Error {
    match serde_json::from_str::<BTreeMap<bool, bool>>(text) {
        Err(error) if error.is_data() && !text.trim_start().starts_with('{') => Error::NotObject,
        _ => Error::Syntax,
    }
}

/// Moves behind the closing quote.
fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'"' => return,
            _ => {}
        }
    }
}

/// Whether a reader without regard to case takes one key for the other. Simple case folding
/// knows two more letters for ASCII names: long s and the Kelvin sign.
fn alike(name: &str, key: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        other => other.to_ascii_lowercase(),
    };
    name.chars().map(fold).eq(key.chars().map(fold))
}

#[cfg(test)]
mod tests;
