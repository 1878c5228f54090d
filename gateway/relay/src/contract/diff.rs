//! What differs between two contracts, member by member.

use std::collections::BTreeSet;

use serde_json::value::RawValue;

use super::{Error, contract};
use crate::json::Tree;

/// One member that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// JSON pointer (RFC 6901).
    pub path: String,
    pub what: What,
}

/// How it differs; values in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Added(String),
    Removed(String),
    Changed { from: String, to: String },
}

/// The members that make `to` another contract than `from`, in the order of their paths. Empty: the
/// two have one digest.
pub fn diff(from: &RawValue, to: &RawValue) -> Result<Vec<Change>, Error> {
    let mut changes = Vec::new();
    compare("", &contract(from)?, &contract(to)?, &mut changes)?;
    Ok(changes)
}

/// Goes down as long as both sides are of one kind, so that one word of a long text is all there is.
///
/// Assumptions: the trees were read from text, which bounds their depth.
fn compare(path: &str, from: &Tree, to: &Tree, changes: &mut Vec<Change>) -> Result<(), Error> {
    match (from, to) {
        (Tree::Object(from), Tree::Object(to)) => {
            let keys: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
            for key in keys {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                either(path, from.get(key), to.get(key), changes)?;
            }
            Ok(())
        }
        (Tree::Array(from), Tree::Array(to)) => {
            for index in 0..from.len().max(to.len()) {
                let path = format!("{path}/{index}");
                either(path, from.get(index), to.get(index), changes)?;
            }
            Ok(())
        }
        _ if from == to => Ok(()),
        _ => {
            let (from, to) = (text(from)?, text(to)?);
            let what = What::Changed { from, to };
            changes.push(Change {
                path: path.to_owned(),
                what,
            });
            Ok(())
        }
    }
}

fn either(
    path: String,
    from: Option<&Tree>,
    to: Option<&Tree>,
    changes: &mut Vec<Change>,
) -> Result<(), Error> {
    let what = match (from, to) {
        (Some(from), Some(to)) => return compare(&path, from, to, changes),
        (Some(from), None) => What::Removed(text(from)?),
        (None, Some(to)) => What::Added(text(to)?),
        (None, None) => return Ok(()),
    };
    changes.push(Change { path, what });
    Ok(())
}

fn text(of: &Tree) -> Result<String, Error> {
    let bytes = of.canonical().map_err(Error::Tool)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
