//! JSON as it is written: numbers keep their spelling, objects their order and members that are
//! there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Where two texts differ: at which path, and what each has there. The empty path is all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Apart {
    pub path: String,
    pub one: String,
    pub other: String,
}

/// One level of a value.
enum Level {
    Object(Vec<(String, String)>),
    Array(Vec<String>),
    /// A string, a number, a word; or no JSON.
    Leaf,
}

/// Members in the order that they are written in.
struct Members(Vec<(String, Box<RawValue>)>);

/// What stands for a value that is not there.
pub const ABSENT: &str = "absent";
/// What stands for the order of names.
const SORTED: &str = "by name";

/// Every difference between two texts, deepest path first met first.
///
/// Objects are compared by member, whatever their order, and arrays by index; an array whose items
/// all have a `name` of their own is compared by name, and its order as one thing more.
pub fn apart(one: &str, other: &str) -> Vec<Apart> {
    let mut found = Vec::new();
    compare(String::new(), one.trim(), other.trim(), &mut found);
    found
}

/// The text of a member of an object; of the last one where there are several.
pub fn member(text: &str, name: &str) -> Option<String> {
    let Level::Object(members) = level(text) else {
        return None;
    };
    let found = members.into_iter().rfind(|(have, _)| have == name);
    found.map(|(_, value)| value)
}

/// The same object without this member.
pub fn without(text: &str, name: &str) -> String {
    let Level::Object(members) = level(text) else {
        return text.to_owned();
    };
    let left = members.iter().filter(|(have, _)| have != name);
    let left: Vec<_> = left
        .map(|(name, value)| format!("{}:{value}", quoted(name)))
        .collect();
    format!("{{{}}}", left.join(","))
}

/// The same object with another value of this member, if it has it; white space is lost.
pub fn with(text: &str, name: &str, value: &str) -> String {
    let Level::Object(members) = level(text) else {
        return text.to_owned();
    };
    let members = members.iter().map(|(have, old)| {
        let value = if have == name { value } else { old };
        format!("{}:{value}", quoted(have))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// The same array with each item edited; white space is lost.
pub fn each(text: &str, edit: impl Fn(&str) -> String) -> String {
    let Level::Array(items) = level(text) else {
        return text.to_owned();
    };
    let items: Vec<_> = items.iter().map(|item| edit(item)).collect();
    format!("[{}]", items.join(","))
}

/// A string as JSON.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The same value with nothing in the members of these names, at any depth; white space is lost.
pub fn blank(text: &str, names: &[&str]) -> String {
    match level(text) {
        Level::Object(members) => {
            let members = members.iter().map(|(name, value)| {
                if names.contains(&name.as_str()) {
                    format!("{}:", quoted(name))
                } else {
                    format!("{}:{}", quoted(name), blank(value, names))
                }
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Level::Array(items) => {
            let items = items.iter().map(|item| blank(item, names));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        Level::Leaf => text.to_owned(),
    }
}

fn compare(path: String, one: &str, other: &str, found: &mut Vec<Apart>) {
    if one == other {
        return;
    }
    match (level(one), level(other)) {
        (Level::Object(one), Level::Object(other)) => {
            members(&path, &numbered(one), &numbered(other), found);
        }
        (Level::Array(one), Level::Array(other)) => items(&path, &one, &other, found),
        _ => found.push(Apart {
            path,
            one: one.to_owned(),
            other: other.to_owned(),
        }),
    }
}

fn members(
    path: &str,
    one: &BTreeMap<String, String>,
    other: &BTreeMap<String, String>,
    found: &mut Vec<Apart>,
) {
    let names: BTreeSet<_> = one.keys().chain(other.keys()).collect();
    for name in names {
        let text = |members: &BTreeMap<String, String>| {
            members.get(name).map_or(ABSENT, String::as_str).to_owned()
        };
        let (one, other) = (text(one), text(other));
        compare(format!("{path}/{}", escaped(name)), &one, &other, found);
    }
}

fn items(path: &str, one: &[String], other: &[String], found: &mut Vec<Apart>) {
    if let (Some(one), Some(other)) = (named(one), named(other)) {
        let (first, second) = (order(&one), order(&other));
        if first != second {
            found.push(Apart {
                path: format!("{path} order"),
                one: first,
                other: second,
            });
        }
        let (one, other) = (one.into_iter().collect(), other.into_iter().collect());
        return members(path, &one, &other, found);
    }
    for index in 0..one.len().max(other.len()) {
        let text = |items: &[String]| items.get(index).map_or(ABSENT, String::as_str).to_owned();
        compare(format!("{path}/{index}"), &text(one), &text(other), found);
    }
}

/// The names of items in their order; said in words where that is the order of names.
fn order(items: &[(String, String)]) -> String {
    if items.is_sorted() {
        return SORTED.to_owned();
    }
    let names: Vec<_> = items.iter().map(|(name, _)| name.as_str()).collect();
    names.join(" ")
}

/// Items by name, if each has one of its own.
fn named(items: &[String]) -> Option<Vec<(String, String)>> {
    let pairs: Option<Vec<_>> = items
        .iter()
        .map(|item| Some((member(item, "name")?, item.clone())))
        .collect();
    let pairs = pairs?;
    let names: BTreeSet<_> = pairs.iter().map(|(name, _)| name.clone()).collect();
    let unquoted = |(name, item): (String, String)| (name.trim_matches('"').to_owned(), item);
    (names.len() == pairs.len()).then(|| pairs.into_iter().map(unquoted).collect())
}

/// By name; the second of two of the same name has a number in its own.
fn numbered(members: Vec<(String, String)>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, value) in members {
        let mut unique = name.clone();
        while all.contains_key(&unique) {
            unique.push_str(" again");
        }
        all.insert(unique, value);
    }
    all
}

fn level(text: &str) -> Level {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => serde_json::from_str(text).map_or(Level::Leaf, |Members(members)| {
            let owned = |(name, value): (String, Box<RawValue>)| (name, value.get().to_owned());
            Level::Object(members.into_iter().map(owned).collect())
        }),
        Some(b'[') => {
            let items: Result<Vec<Box<RawValue>>, _> = serde_json::from_str(text);
            items.map_or(Level::Leaf, |items| {
                Level::Array(items.iter().map(|item| item.get().to_owned()).collect())
            })
        }
        _ => Level::Leaf,
    }
}

/// As in a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

// === impl Members ===

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests;
