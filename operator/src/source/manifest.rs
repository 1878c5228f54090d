//! One manifest file: its objects and what is wrong with it.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hangar_crds::LABEL_USE;
use hangar_operator_core::{ObjectId, ObjectKind, SecretBytes, SecretView};
use hangar_wire::Sha256Hex;
use serde_json::{Map, Value};

use super::document::{self, Document, member};

/// A file as it was read.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    pub entries: Vec<Entry>,
    pub problems: Vec<Problem>,
    pub completeness: Completeness,
}

/// Whether the entries are all objects of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completeness {
    #[default]
    Whole,
    /// Some document cannot be read: what the file defined before may be in it.
    Damaged,
}

/// One object of a file.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: ObjectId,
    pub line: u64,
    pub form: Form,
    /// Over the part whose change counts as a new generation.
    pub spec_digest: Sha256Hex,
    /// Over everything that is read.
    pub digest: Sha256Hex,
}

/// What an entry amounts to.
#[derive(Clone, Debug)]
pub enum Form {
    /// Valid by the schema; the manifest with namespace and name filled in.
    Object(Value),
    Secret(SecretView),
    /// An API server would refuse it.
    Refused {
        class: Option<String>,
        message: String,
    },
}

/// Something that a person should mend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    pub file: PathBuf,
    pub line: Option<u64>,
    /// Field path, where one field is to blame.
    pub field: Option<String>,
    pub reason: Reason,
    /// What is wrong and what to do; quotes no value of a Secret.
    pub message: String,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Not readable, or too large.
    Unreadable,
    /// Not YAML.
    Syntax,
    /// YAML, but not an object with kind and name.
    NoObject,
    /// An object that an API server would refuse.
    Refused,
    /// An object that another file, or an earlier document, defines already.
    Duplicate,
    /// A kind that is not ours; no fault.
    Ignored,
}

/// Reads one file's text.
struct Reader<'a> {
    file: &'a Path,
    document: &'a Document,
    manifest: &'a mut Manifest,
}

/// Longest name of an object or namespace.
const MAX_NAME: usize = 253;
const DEFAULT_NAMESPACE: &str = "default";
const OURS: &str = "hangar.dev/v1alpha1";
const GROUP_PREFIX: &str = "hangar.dev/";

/// Reads a file's text.
pub fn read(file: &Path, text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    for document in document::split(text) {
        match document {
            Ok(document) => {
                let mut reader = Reader {
                    file,
                    document: &document,
                    manifest: &mut manifest,
                };
                reader.take(&document.value, "");
            }
            Err(error) => {
                manifest.completeness = Completeness::Damaged;
                manifest.problems.push(Problem {
                    file: file.to_owned(),
                    line: Some(error.line),
                    field: None,
                    reason: Reason::Syntax,
                    message: error.message,
                });
            }
        }
    }
    manifest
}

fn object_kind(kind: &str, api_version: &str) -> Option<ObjectKind> {
    match (kind, api_version) {
        ("McpUpstream", OURS) => Some(ObjectKind::McpUpstream),
        ("TenantPolicy", OURS) => Some(ObjectKind::TenantPolicy),
        ("Secret", "v1") => Some(ObjectKind::Secret),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    text.len() <= MAX_NAME
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(inner)
}

fn text_at<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

// === impl Reason ===

impl Reason {
    /// Closed word for metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::NoObject => "no_object",
            Self::Refused => "refused",
            Self::Duplicate => "duplicate",
            Self::Ignored => "ignored",
        }
    }
}

// === impl Problem ===

impl Problem {
    /// Whether somebody has to mend it.
    pub fn is_fault(&self) -> bool {
        self.reason != Reason::Ignored
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = &self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.message)
    }
}

// === impl Reader ===

impl Reader<'_> {
    /// Takes an object, or each item of a List.
    fn take(&mut self, value: &Value, path: &str) {
        let Value::Object(map) = value else {
            self.no_object(
                path,
                "an object with kind, metadata and spec is expected here",
            );
            return;
        };
        let Some(kind) = text_at(value, "/kind") else {
            self.no_object(
                &member(path, "kind"),
                "missing; say which kind of object this is",
            );
            return;
        };
        let api_version = text_at(value, "/apiVersion").unwrap_or_default();
        if let (true, Some(Value::Array(items))) = (kind.ends_with("List"), map.get("items")) {
            for (index, item) in items.iter().enumerate() {
                self.take(item, &format!("{}[{index}]", member(path, "items")));
            }
            return;
        }
        match object_kind(kind, api_version) {
            Some(kind) => self.object(kind, map, path),
            None if matches!(kind, "McpUpstream" | "TenantPolicy" | "Secret") => {
                let wanted = if kind == "Secret" { "v1" } else { OURS };
                let message = format!("`{api_version}` is not served for {kind}; write {wanted}");
                self.no_object(&member(path, "apiVersion"), &message);
            }
            None if api_version.starts_with(GROUP_PREFIX) => {
                let message =
                    format!("{kind} is no kind of {OURS}; write McpUpstream or TenantPolicy");
                self.no_object(&member(path, "kind"), &message);
            }
            None => {
                let message = format!("kind {kind} is not read here; the object is ignored");
                self.problem(&member(path, "kind"), Reason::Ignored, message);
            }
        }
    }

    fn object(&mut self, kind: ObjectKind, map: &Map<String, Value>, path: &str) {
        let mut value = Value::Object(map.clone());
        let name = text_at(&value, "/metadata/name")
            .unwrap_or_default()
            .to_owned();
        if !is_name(&name) {
            let field = member(path, "metadata.name");
            self.no_object(
                &field,
                "a name of lower-case letters, digits, `-` and `.` is needed",
            );
            return;
        }
        let namespace = match value.pointer("/metadata/namespace") {
            None | Some(Value::Null) => DEFAULT_NAMESPACE.to_owned(),
            Some(Value::String(text)) if is_name(text) => text.clone(),
            Some(_) => {
                let field = member(path, "metadata.namespace");
                self.no_object(&field, "no valid namespace name; mend it or leave it out");
                return;
            }
        };
        if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
        }
        let id = ObjectId::new(kind, namespace, name);
        let form = match kind {
            ObjectKind::Secret => self.secret(&id, &value, path),
            ObjectKind::McpUpstream | ObjectKind::TenantPolicy => self.ours(&id, &value, path),
        };
        let spec = value.get("spec").unwrap_or(&Value::Null);
        self.manifest.entries.push(Entry {
            line: self.document.line_of(path),
            id,
            form,
            spec_digest: Sha256Hex::of(spec.to_string().as_bytes()),
            digest: Sha256Hex::of(value.to_string().as_bytes()),
        });
    }

    fn ours(&mut self, id: &ObjectId, value: &Value, path: &str) -> Form {
        let violations = hangar_crds::violations(id.kind.as_str(), value);
        if violations.is_empty() {
            return Form::Object(value.clone());
        }
        let mut message = Vec::new();
        for violation in violations {
            message.push(format!("{}: {}", violation.path, violation.message));
            let field = member(path, &violation.path);
            self.problem(&field, Reason::Refused, violation.message);
        }
        Form::Refused {
            class: text_at(value, "/spec/className").map(str::to_owned),
            message: message.join("; "),
        }
    }

    /// Values never appear in a message.
    fn secret(&mut self, id: &ObjectId, value: &Value, path: &str) -> Form {
        let mut view = SecretView {
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            purpose: value
                .get("metadata")
                .and_then(|metadata| metadata.get("labels")?.get(LABEL_USE)?.as_str())
                .map(str::to_owned),
            data: [].into(),
        };
        let before = self.manifest.problems.len();
        for field in ["data", "stringData"] {
            let found = value.get(field).unwrap_or(&Value::Null);
            let Some(members) = self.members(found, &member(path, field)) else {
                continue;
            };
            for (key, text) in members {
                let at = member(&member(path, field), &key);
                let bytes = match (field, text) {
                    ("stringData", Some(text)) => Some(text.into_bytes()),
                    (_, Some(text)) => STANDARD.decode(text.as_bytes()).ok(),
                    (_, None) => None,
                };
                match bytes {
                    Some(bytes) => drop(view.data.insert(key, SecretBytes::new(bytes))),
                    None => self.problem(&at, Reason::Refused, wanted(field).to_owned()),
                }
            }
        }
        if self.manifest.problems.len() == before {
            return Form::Secret(view);
        }
        Form::Refused {
            class: None,
            message: "the Secret is not valid".to_owned(),
        }
    }

    /// Members of a map of strings; `None` in place of what is no string.
    fn members(&mut self, value: &Value, path: &str) -> Option<Vec<(String, Option<String>)>> {
        match value {
            Value::Null => None,
            Value::Object(map) => Some(
                map.iter()
                    .map(|(key, value)| (key.clone(), value.as_str().map(str::to_owned)))
                    .collect(),
            ),
            _ => {
                let message = "a map from key to text is expected".to_owned();
                self.problem(path, Reason::Refused, message);
                None
            }
        }
    }

    fn no_object(&mut self, path: &str, message: &str) {
        self.manifest.completeness = Completeness::Damaged;
        self.problem(path, Reason::NoObject, message.to_owned());
    }

    fn problem(&mut self, path: &str, reason: Reason, message: String) {
        self.manifest.problems.push(Problem {
            file: self.file.to_owned(),
            line: Some(self.document.line_of(path)),
            field: (!path.is_empty()).then(|| path.to_owned()),
            reason,
            message,
        });
    }
}

fn wanted(field: &str) -> &'static str {
    match field {
        "data" => "text in base64 is expected; put plain text under stringData",
        _ => "text is expected; put the value in quotes",
    }
}

#[cfg(test)]
mod tests;
