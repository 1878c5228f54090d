//! Checks a manifest against the generated schema, as an API server would, for manifests that never
//! meet one. Rules in CEL are not run: the operator's core validates their meaning by hand.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use regex::Regex;
use serde_json::{Map, Value};

use crate::definitions;

/// One member that the schema refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// As `spec.subjects[0].name`.
    pub path: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let both = definitions().expect("the derived definitions are plain JSON");
    both.into_iter()
        .map(|mut definition| {
            let kind = definition["spec"]["names"]["kind"]
                .as_str()
                .unwrap_or_default();
            let kind = kind.to_owned();
            let schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take();
            (kind, schema)
        })
        .collect()
});

static PATTERNS: LazyLock<Mutex<BTreeMap<String, Regex>>> = LazyLock::new(Mutex::default);

/// What the schema of this kind refuses in a manifest; empty for a good one. `status` is not looked at.
///
/// Caveats: a null entry of a map is refused, where an API server drops it: the manifest is used as
/// it is.
pub fn violations(kind: &str, manifest: &Value) -> Vec<Violation> {
    let mut found = Vec::new();
    let Some(schema) = SCHEMAS.get(kind) else {
        push(
            &mut found,
            "kind",
            format!("`{kind}` is not McpUpstream or TenantPolicy"),
        );
        return found;
    };
    match manifest.get("spec") {
        Some(spec) => check(&schema["properties"]["spec"], spec, "spec", &mut found),
        None => push(&mut found, "spec", "is missing"),
    }
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    for name in manifest.as_object().into_iter().flat_map(Map::keys) {
        if !known.contains(&name.as_str()) {
            push(&mut found, name, "is no field of this kind");
        }
    }
    found
}

fn check(schema: &Value, value: &Value, path: &str, found: &mut Vec<Violation>) {
    if !has_type(schema, value) {
        let wanted = schema["type"].as_str().unwrap_or_default();
        return push(found, path, format!("must be of type {wanted}"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let names: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        return push(found, path, format!("must be one of {}", names.join(", ")));
    }
    match value {
        Value::Object(members) => check_object(schema, members, path, found),
        Value::Array(items) => {
            check_count(schema, "Items", items.len(), "entries", path, found);
            for (index, item) in items.iter().enumerate() {
                check(&schema["items"], item, &format!("{path}[{index}]"), found);
            }
            check_keys(schema, items, path, found);
        }
        Value::String(text) => {
            check_count(
                schema,
                "Length",
                text.chars().count(),
                "characters",
                path,
                found,
            );
            if let Some(pattern) = schema["pattern"].as_str()
                && !matches(pattern, text)
            {
                push(found, path, format!("must match {pattern}"));
            }
        }
        Value::Number(number) => check_range(schema, number.as_f64(), path, found),
        Value::Null | Value::Bool(_) => {}
    }
}

fn check_object(
    schema: &Value,
    members: &Map<String, Value>,
    path: &str,
    found: &mut Vec<Violation>,
) {
    for name in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if members.get(name).is_none_or(Value::is_null) {
            push(found, &format!("{path}.{name}"), "is missing");
        }
    }
    if let Some(of_all) = schema
        .get("additionalProperties")
        .filter(|it| it.is_object())
    {
        check_count(schema, "Properties", members.len(), "entries", path, found);
        for (name, member) in members {
            check(of_all, member, &format!("{path}.{name}"), found);
        }
        return;
    }
    for (name, member) in members {
        let path = format!("{path}.{name}");
        match schema["properties"].get(name) {
            // An explicit null is an absent member, as for an API server.
            Some(_) if member.is_null() => {}
            Some(schema) => check(schema, member, &path, found),
            None => push(found, &path, "is no field here; look for a misspelling"),
        }
    }
}

/// Lists with keys hold each key once; sets hold each entry once.
fn check_keys(schema: &Value, items: &[Value], path: &str, found: &mut Vec<Violation>) {
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let is_set = schema["x-kubernetes-list-type"] == "set";
    if keys.is_empty() && !is_set {
        return;
    }
    for (index, item) in items.iter().enumerate() {
        let same = |other: &&Value| {
            if is_set {
                *other == item
            } else {
                keys.iter().all(|key| other.get(key) == item.get(key))
            }
        };
        if items[..index].iter().any(|other| same(&other)) {
            push(found, &format!("{path}[{index}]"), "stands here twice");
        }
    }
}

fn check_count(
    schema: &Value,
    what: &str,
    count: usize,
    unit: &str,
    path: &str,
    found: &mut Vec<Violation>,
) {
    let bound = |end: &str| schema[format!("{end}{what}")].as_u64();
    let count = count as u64;
    if let Some(least) = bound("min").filter(|least| count < *least) {
        push(
            found,
            path,
            format!("has {count} {unit}, at least {least} are needed"),
        );
    }
    if let Some(most) = bound("max").filter(|most| count > *most) {
        push(
            found,
            path,
            format!("has {count} {unit}, at most {most} are allowed"),
        );
    }
}

fn check_range(schema: &Value, number: Option<f64>, path: &str, found: &mut Vec<Violation>) {
    let Some(number) = number else {
        return;
    };
    if let Some(least) = schema["minimum"].as_f64().filter(|least| number < *least) {
        push(found, path, format!("must be at least {least}"));
    }
    if let Some(most) = schema["maximum"].as_f64().filter(|most| number > *most) {
        push(found, path, format!("must be at most {most}"));
    }
}

fn has_type(schema: &Value, value: &Value) -> bool {
    match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        _ => true,
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut patterns = PATTERNS.lock().unwrap_or_else(PoisonError::into_inner);
    let regex = patterns.entry(pattern.to_owned()).or_insert_with(|| {
        Regex::new(pattern).expect("a pattern of the schema is tested to compile")
    });
    regex.is_match(text)
}

fn push(found: &mut Vec<Violation>, path: &str, message: impl Into<String>) {
    found.push(Violation {
        path: path.to_owned(),
        message: message.into(),
    });
}
