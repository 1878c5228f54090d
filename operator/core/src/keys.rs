//! API keys: a Secret becomes principals with hashed keys, and its bytes go no further.

use std::collections::{BTreeMap, BTreeSet};

use hangar_crds::{LABEL_USE, USE_API_KEYS};
use hangar_wire::ApiKeyHash;

use crate::object::{Place, SecretView};
use crate::reason::{Reason, Refusal};

/// Hashed keys by principal.
pub(crate) type Principals = BTreeMap<String, BTreeSet<ApiKeyHash>>;

/// What a Secret gives as API keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Usable(Principals),
    /// The label `hangar.dev/use` is absent or names another use.
    NotLabelled {
        found: Option<String>,
    },
    /// What is wrong; names the data key, never the value.
    Invalid(String),
}

/// Most principals (data keys) in one Secret.
const MAX_PRINCIPALS: usize = 256;
/// Most keys of one principal: the one in use and those it is rotated with.
const MAX_KEYS: usize = 8;
/// Shortest key, in bytes: below that it can be guessed.
const MIN_KEY_BYTES: usize = 16;
/// Longest key, in bytes.
const MAX_KEY_BYTES: usize = 512;
/// Longest data key, in bytes; the API server's own bound.
const MAX_NAME_BYTES: usize = 253;

/// The principals of a Secret that a policy refers to, or why there are none.
pub(crate) fn resolve(
    path: &str,
    place: &Place,
    found: Option<&Keys>,
) -> Result<Principals, Refusal> {
    let Place { namespace, name } = place;
    match found {
        Some(Keys::Usable(principals)) => Ok(principals.clone()),
        None => Err(Refusal::new(
            Reason::SecretNotFound,
            format!(
                "{path}: no Secret {place} with the label {LABEL_USE}; make it, or label it: \
                 kubectl label secret -n {namespace} {name} {LABEL_USE}={USE_API_KEYS}"
            ),
        )),
        Some(Keys::NotLabelled { found }) => Err(Refusal::new(
            Reason::SecretNotLabelled,
            format!(
                "{path}: Secret {place} {}, it must carry {LABEL_USE}={USE_API_KEYS}: \
                 kubectl label --overwrite secret -n {namespace} {name} {LABEL_USE}={USE_API_KEYS}",
                match found {
                    Some(other) => format!("is labelled {LABEL_USE}={other}"),
                    None => "is not labelled".to_owned(),
                }
            ),
        )),
        Some(Keys::Invalid(what)) => Err(Refusal::new(
            Reason::InvalidSecret,
            format!("{path}: Secret {place}: {what}; none of its keys is in use"),
        )),
    }
}

// === impl Keys ===

impl Keys {
    /// Reads a Secret.
    ///
    /// Guarantees: what is kept holds hashes only; a Secret with one bad value gives no key at all,
    /// since half a rotation could leave a withdrawn key as the only one.
    pub(crate) fn of(secret: &SecretView) -> Self {
        let SecretView {
            namespace: _,
            name: _,
            purpose,
            data,
        } = secret;
        if purpose.as_deref() != Some(USE_API_KEYS) {
            return Self::NotLabelled {
                found: purpose.clone(),
            };
        }
        if data.is_empty() || data.len() > MAX_PRINCIPALS {
            return Self::Invalid(format!(
                "{} data keys, it must have 1 to {MAX_PRINCIPALS}, one for each principal",
                data.len()
            ));
        }
        data.iter()
            .map(|(name, value)| {
                check_name(name)?;
                let keys =
                    keys_of(value.as_bytes()).map_err(|what| format!("data key {name}: {what}"))?;
                Ok((name.clone(), keys))
            })
            .collect::<Result<_, String>>()
            .map_or_else(Self::Invalid, Self::Usable)
    }

    /// A Secret that could not be read; its error text could quote a value.
    pub(crate) fn unreadable() -> Self {
        Self::Invalid("it cannot be read as a Secret".to_owned())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(legal) {
        return Ok(());
    }
    Err("a data key is not 1 to 253 letters, digits, `-`, `_` and `.`".to_owned())
}

/// One key on each line; line ends are trimmed and empty lines skipped.
fn keys_of(value: &[u8]) -> Result<BTreeSet<ApiKeyHash>, String> {
    let mut keys = BTreeSet::new();
    for (index, line) in value.split(|byte| *byte == b'\n').enumerate() {
        let key = line.strip_suffix(b"\r").unwrap_or(line);
        if key.is_empty() {
            continue;
        }
        let line = index + 1;
        if !(MIN_KEY_BYTES..=MAX_KEY_BYTES).contains(&key.len()) {
            return Err(format!(
                "the key on line {line} is not {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes long"
            ));
        }
        // It travels in a header after `Bearer `.
        if !key.iter().all(u8::is_ascii_graphic) {
            return Err(format!(
                "the key on line {line} holds a space or a byte that is not visible ASCII"
            ));
        }
        keys.insert(ApiKeyHash::of(key));
    }
    if keys.is_empty() || keys.len() > MAX_KEYS {
        return Err(format!(
            "{} keys, it must have 1 to {MAX_KEYS}, each on a line of its own",
            keys.len()
        ));
    }
    Ok(keys)
}
