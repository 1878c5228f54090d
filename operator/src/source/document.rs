//! YAML documents with the line of every field.
//!
//! A file is cut at its document markers before it is parsed, so that a syntax error costs its own
//! document only. JSON is read as the YAML that it is.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// One document of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// Line of the file on which the document begins, from 1.
    pub line: u64,
    pub value: Value,
    /// Line of the file by field path (`spec.tools.allow[0]`).
    lines: BTreeMap<String, u64>,
}

/// A document that is no YAML. The message quotes nothing of the file, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub line: u64,
    pub message: String,
}

enum Node {
    Scalar(Value),
    Sequence(Vec<Spanned<Node>>),
    Mapping(Vec<(Spanned<String>, Spanned<Node>)>),
}

struct NodeVisitor;

/// Documents of a file in order; empty ones are left out.
pub fn split(text: &str) -> Vec<Result<Document, Error>> {
    chunks(text)
        .into_iter()
        .filter_map(|(line, chunk)| parse(line, chunk).transpose())
        .collect()
}

/// Text between document markers with the line on which each part begins.
fn chunks(text: &str) -> Vec<(u64, &str)> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line) = (0, 1);
    let mut offset = 0;
    for (index, line) in (1..).zip(text.split_inclusive('\n')) {
        // At the start of a line the marker ends a document even within a quoted or block scalar.
        if is_marker(line) && offset > start {
            chunks.push((start_line, &text[start..offset]));
            (start, start_line) = (offset, index);
        }
        offset += line.len();
    }
    chunks.push((start_line, &text[start..]));
    chunks.retain(|(_, chunk)| chunk.lines().any(has_content));
    chunks
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn has_content(line: &str) -> bool {
    let line = line.trim();
    !(line.is_empty() || line == "---" || line == "..." || line.starts_with(['#', '%']))
}

fn parse(line: u64, text: &str) -> Result<Option<Document>, Error> {
    let node: Spanned<Node> = serde_saphyr::from_str(text).map_err(|error| {
        let error = error.without_snippet();
        let within = error.location().map_or(1, |it| it.line().max(1));
        Error {
            line: line + within - 1,
            message: syntax_message(error),
        }
    })?;
    let mut document = Document {
        line,
        ..Document::default()
    };
    document.value = document.take(node.value, "");
    Ok((!document.value.is_null()).then_some(document))
}

/// What the parser says, unless it could quote a value.
fn syntax_message(error: &serde_saphyr::Error) -> String {
    let shown = error.to_string();
    let first = shown.lines().next().unwrap_or_default();
    let quotes = first.contains(['"', '`', '\'']);
    if quotes || first.is_empty() {
        return "this is no valid YAML; check indentation, quotes and duplicate keys".to_owned();
    }
    format!("this is no valid YAML: {first}")
}

/// Path of a member.
pub fn member(path: &str, key: &str) -> String {
    if path.is_empty() {
        return key.to_owned();
    }
    format!("{path}.{key}")
}

// === impl Document ===

impl Document {
    /// Line of a field, or of the nearest parent that is there.
    pub fn line_of(&self, path: &str) -> u64 {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return *line;
            }
            match path.rfind(['.', '[']) {
                Some(end) => path = &path[..end],
                None => return self.line,
            }
        }
    }

    fn take(&mut self, node: Node, path: &str) -> Value {
        match node {
            Node::Scalar(value) => value,
            Node::Sequence(items) => {
                let items = items.into_iter().enumerate();
                items
                    .map(|(index, item)| {
                        let path = format!("{path}[{index}]");
                        self.note(&path, item.referenced.line());
                        self.take(item.value, &path)
                    })
                    .collect()
            }
            Node::Mapping(members) => {
                let mut map = Map::new();
                for (key, value) in members {
                    let path = member(path, &key.value);
                    self.note(&path, key.referenced.line());
                    let value = self.take(value.value, &path);
                    map.insert(key.value, value);
                }
                Value::Object(map)
            }
        }
    }

    fn note(&mut self, path: &str, line_in_document: u64) {
        let line = self.line + line_in_document.max(1) - 1;
        self.lines.insert(path.to_owned(), line);
    }
}

// === impl Node ===

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

// === impl NodeVisitor ===

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Bool(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value).map_or(Value::Null, Value::Number);
        Ok(Node::Scalar(number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Node::Sequence(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Node, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = access.next_entry()? {
            members.push(member);
        }
        Ok(Node::Mapping(members))
    }
}

#[cfg(test)]
mod tests;
