//! A whole JSON value, read so that it can be hashed.

use std::collections::BTreeMap;
use std::fmt;

use hangar_wire::Sha256Hex;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Error, skip_string};

/// A JSON value that can be hashed.
#[derive(Clone, PartialEq)]
pub enum Tree {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    String(String),
    Array(Vec<Tree>),
    Object(BTreeMap<String, Tree>),
}

struct TreeVisitor;

const MAX_INTEGER: i64 = 1 << 53;
const PRIVATE_PREFIX: &str = "$serde_json::private::";
// A visitor can hand over text only: these two find their way back to an `Error` by it.
const DUPLICATE: &str = "duplicate key";
const PRIVATE: &str = "private key";

/// SHA-256 over the RFC 8785 form of a value.
pub fn canonical_hash(raw: &RawValue) -> Result<Sha256Hex, Error> {
    Tree::parse(raw)?.hash()
}

/// A non-negative integer, whichever way it is spelled (`1`, `1.0`, `1e3`), up to 2^53.
pub(crate) fn unsigned(raw: &RawValue) -> Option<u64> {
    match Tree::parse(raw).ok()? {
        Tree::Integer(value) => u64::try_from(value).ok(),
        _ => None,
    }
}

/// An integer, whichever way it is spelled, up to 2^53.
pub(crate) fn integer(raw: &RawValue) -> Option<i64> {
    match Tree::parse(raw).ok()? {
        Tree::Integer(value) => Some(value),
        _ => None,
    }
}

// === impl Tree ===

impl Tree {
    /// Reads a value whole; refuses what two readers could take for different values.
    pub fn parse(raw: &RawValue) -> Result<Self, Error> {
        check_integers(raw.get())?;
        serde_json::from_str(raw.get()).map_err(|error| {
            let text = error.to_string();
            if text.starts_with(DUPLICATE) {
                Error::Duplicate
            } else if text.starts_with(PRIVATE) {
                Error::PrivateKey
            } else if text.starts_with("recursion limit") {
                Error::TooDeep
            } else {
                Error::Syntax
            }
        })
    }

    /// The RFC 8785 form.
    pub fn canonical(&self) -> Result<Vec<u8>, Error> {
        hangar_wire::canonical(self).map_err(|_| Error::Syntax)
    }

    /// SHA-256 over the RFC 8785 form.
    pub fn hash(&self) -> Result<Sha256Hex, Error> {
        Sha256Hex::of_canonical(self).map_err(|_| Error::Syntax)
    }
}

/// Shows the kind alone: what is in it is the client's or the upstream's.
impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Bool(_) => "Bool",
            Self::Integer(_) => "Integer",
            Self::Float(_) => "Float",
            Self::String(_) => "String",
            Self::Array(_) => "Array",
            Self::Object(_) => "Object",
        })
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::String(value) => serializer.serialize_str(value),
            Self::Array(values) => serializer.collect_seq(values),
            Self::Object(members) => serializer.collect_map(members),
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Tree, E> {
        i64::try_from(value).map(Tree::Integer).map_err(E::custom)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(exact_integer(value).map_or(Tree::Float(value), Tree::Integer))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Tree::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if key.starts_with(PRIVATE_PREFIX) {
                return Err(serde::de::Error::custom(PRIVATE));
            }
            if members.insert(key, map.next_value()?).is_some() {
                return Err(serde::de::Error::custom(DUPLICATE));
            }
        }
        Ok(Tree::Object(members))
    }
}

/// Refuses integer literals beyond 2^53; a literal with a fraction or an exponent means a double.
fn check_integers(text: &str) -> Result<(), Error> {
    let mut bytes = text.bytes();
    let mut literal = String::new();
    loop {
        let byte = bytes.next();
        match byte {
            Some(digit @ (b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) => {
                literal.push(char::from(digit));
                continue;
            }
            Some(b'"') => skip_string(&mut bytes),
            _ => {}
        }
        let is_integer = literal.bytes().all(|b| b == b'-' || b.is_ascii_digit());
        if is_integer && !literal.is_empty() && literal != "-" {
            let value: i64 = literal.parse().map_err(|_| Error::BigInteger)?;
            if value.unsigned_abs() > MAX_INTEGER.unsigned_abs() {
                return Err(Error::BigInteger);
            }
        }
        literal.clear();
        if byte.is_none() {
            return Ok(());
        }
    }
}

/// The integer that a double is, within 2^53.
fn exact_integer(value: f64) -> Option<i64> {
    const BOUND: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= BOUND {
        // Exact: every integer of this range is a double and fits.
        #[allow(clippy::cast_possible_truncation)]
        return Some(value as i64);
    }
    None
}
