//! Manifests for the folder mode and for `kubectl apply`.
//!
//! Objects are JSON values, which YAML readers take as they are; a builder fills in the least
//! that is valid and a test sets what it is about by JSON pointer.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

/// One object.
#[derive(Clone, Debug)]
pub struct Manifest(Value);

/// An `McpUpstream` at this URL, everything else left to defaults.
pub fn mk_upstream(name: &str, url: &str) -> Manifest {
    Manifest(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "McpUpstream",
        "metadata": {"name": name},
        "spec": {"endpoint": {"url": url}},
    }))
}

/// A `TenantPolicy` whose principals are the keys of the Secret `NAME-keys`; see [`mk_keys`].
pub fn mk_tenant(name: &str) -> Manifest {
    Manifest(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"name": name},
        "spec": {
            "tenant": name,
            "subjects": [{
                "name": "keys", "type": "APIKeys",
                "apiKeys": {"secretRef": {"name": format!("{name}-keys")}},
            }],
            "upstreams": [],
        },
    }))
}

/// The Secret of [`mk_tenant`]: principals and their API keys.
pub fn mk_keys(tenant: &str, keys: &[(&str, &str)]) -> Manifest {
    let data: Map<String, Value> = keys
        .iter()
        .map(|(k, v)| ((*k).to_owned(), json!(v)))
        .collect();
    Manifest(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format!("{tenant}-keys"),
            "labels": {"hangar.dev/use": "api-keys"},
        },
        "stringData": data,
    }))
}

/// Writes the objects into one file of several documents, in one step: a watcher sees the old
/// file or the new one.
pub fn write(folder: &Path, file: &str, objects: &[Manifest]) -> Result<()> {
    write_text(folder, file, &to_yaml(objects))
}

/// As [`write`], for a file that need not be a manifest at all.
pub fn write_text(folder: &Path, file: &str, text: &str) -> Result<()> {
    let part = folder.join(format!(".{file}.part"));
    let path = folder.join(file);
    fs::write(&part, text).with_context(|| format!("{}", part.display()))?;
    fs::rename(&part, &path).with_context(|| format!("{}", path.display()))
}

pub fn to_yaml(objects: &[Manifest]) -> String {
    let texts: Vec<_> = objects
        .iter()
        .map(|object| format!("{:#}\n", object.0))
        .collect();
    texts.join("---\n")
}

// === impl Manifest ===

impl Manifest {
    /// Any object.
    pub fn new(object: Value) -> Self {
        Self(object)
    }

    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.set("/metadata/namespace", json!(namespace))
    }

    /// Sets the member at this JSON pointer and makes the objects on the way.
    #[must_use]
    pub fn set(mut self, pointer: &str, value: Value) -> Self {
        let mut at = &mut self.0;
        for member in pointer.split('/').skip(1) {
            let member = member.replace("~1", "/").replace("~0", "~");
            at = match at {
                Value::Array(items) => {
                    let index: usize = member.parse().unwrap_or(usize::MAX);
                    if index >= items.len() {
                        items.push(Value::Null);
                    }
                    let last = items.len() - 1;
                    &mut items[index.min(last)]
                }
                other => {
                    if !other.is_object() {
                        *other = json!({});
                    }
                    &mut other[member]
                }
            };
        }
        *at = value;
        self
    }

    /// Removes the member at this JSON pointer.
    #[must_use]
    pub fn without(mut self, pointer: &str) -> Self {
        if let Some((parent, member)) = pointer.rsplit_once('/')
            && let Some(Value::Object(parent)) = self.0.pointer_mut(parent)
        {
            parent.remove(member);
        }
        self
    }

    /// A policy's access to an upstream of its own namespace.
    #[must_use]
    pub fn grants(self, upstream: &str) -> Self {
        self.grant(json!({"name": upstream, "upstreamRef": {"name": upstream}}))
    }

    /// As [`Manifest::grants`]; the owner of a task may answer its questions.
    #[must_use]
    pub fn grants_with_consent(self, upstream: &str) -> Self {
        self.grant(json!({
            "name": upstream,
            "upstreamRef": {"name": upstream},
            "tasks": {"consent": {
                "methods": ["elicitation/create"], "answeredBy": {"type": "Owner"},
            }},
        }))
    }

    pub fn value(&self) -> &Value {
        &self.0
    }

    fn grant(self, grant: Value) -> Self {
        let count = self.0["spec"]["upstreams"].as_array().map_or(0, Vec::len);
        self.set(&format!("/spec/upstreams/{count}"), grant)
    }
}

#[cfg(test)]
mod tests;
