//! Values, their schema, and the templates that read them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{read, templates, yaml};
use crate::assert_none;

const VALUES: &str = "charts/hangar/values.yaml";
const SCHEMA: &str = "charts/hangar/values.schema.json";

const HELPERS: &str = "charts/hangar/templates/_helpers.tpl";

/// Parts of the values that helpers are given, and what their members are called there.
const HANDED: [(&str, &str); 4] = [
    (".operator.image", ".image"),
    (".gateway.image", ".image"),
    (".operator", ""),
    (".gateway", ""),
];

/// Known to the schema only, because Helm itself adds it.
const HELMS_OWN: &str = "global";

/// Schema and values side by side, down to where the schema names no more properties.
struct Comparison {
    definitions: Map<String, Value>,
    findings: Vec<String>,
    /// Paths of the values that templates must read.
    leaves: BTreeSet<String>,
}

// === impl Comparison ===

impl Comparison {
    fn of(values: &Value, schema: &Value) -> Self {
        let definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
        let mut this = Self {
            definitions,
            findings: Vec::new(),
            leaves: BTreeSet::new(),
        };
        this.compare("", values, schema);
        this
    }

    fn compare(&mut self, path: &str, value: &Value, schema: &Value) {
        let schema = &self.resolved(schema);
        let Some(properties) = schema["properties"].as_object() else {
            self.leaves.insert(path.to_owned());
            return;
        };
        if schema["additionalProperties"] != false {
            self.findings.push(format!("{path}: takes any key"));
        }
        let none = Map::new();
        let members = value.as_object().unwrap_or(&none);
        for key in members.keys().filter(|key| !properties.contains_key(*key)) {
            self.findings
                .push(format!("{path}.{key}: not in the schema"));
        }
        for (key, schema) in properties.iter().filter(|(key, _)| *key != HELMS_OWN) {
            let path = format!("{path}.{key}");
            if !self.resolved(schema)["description"].is_string() {
                self.findings.push(format!("{path}: no description"));
            }
            match members.get(key) {
                Some(value) => self.compare(&path, value, schema),
                None => self.findings.push(format!("{path}: in the schema only")),
            }
        }
    }

    /// A schema with the members of the one that it refers to.
    fn resolved(&self, schema: &Value) -> Value {
        let mut schema = schema.clone();
        let Some(members) = schema.as_object_mut() else {
            return schema;
        };
        let name = members
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|it| it.strip_prefix("#/$defs/"));
        if let Some(referred) = name.and_then(|it| self.definitions.get(it)) {
            for (key, value) in referred.as_object().into_iter().flatten() {
                members.entry(key).or_insert_with(|| value.clone());
            }
        }
        schema
    }
}

#[test]
fn values_and_schema_have_the_same_keys() {
    let schema = serde_json::from_str(&read(SCHEMA)).expect(SCHEMA);
    let compared = Comparison::of(&yaml(VALUES), &schema);
    assert!(compared.leaves.len() > 20, "{:?}", compared.leaves);
    assert_none("values.yaml and values.schema.json", &compared.findings);
}

#[test]
fn every_value_is_read_and_every_value_that_is_read_exists() {
    let schema = serde_json::from_str(&read(SCHEMA)).expect(SCHEMA);
    let leaves = Comparison::of(&yaml(VALUES), &schema).leaves;
    let text: String = templates().into_iter().map(|file| file.text).collect();
    let taken: BTreeSet<&str> = words(&text)
        .filter_map(|word| word.split_once(".Values").map(|it| it.1))
        .collect();
    let helpers = self::read(HELPERS);
    let helped: BTreeSet<&str> = words(&helpers).collect();
    let mut findings: Vec<_> = leaves
        .iter()
        .filter(|leaf| !is_read(leaf, &taken, &helped))
        .map(|leaf| format!("{leaf}: no template reads it"))
        .collect();

    let paths = words(&text).filter_map(|word| word.split_once(".Values").map(|it| it.1));
    for path in paths {
        let exists = leaves.iter().any(|leaf| {
            let rest = leaf.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        if !exists {
            findings.push(format!("{path}: read, and no value"));
        }
    }
    assert_none("values in templates", &findings);
}

/// Whether a template takes this value, or one that it is a member of, or hands it to a helper that
/// takes it.
fn is_read(leaf: &str, taken: &BTreeSet<&str>, helped: &BTreeSet<&str>) -> bool {
    let is_handed = |path: &str| HANDED.iter().any(|(part, _)| *part == path);
    let mut ends = leaf.match_indices('.').map(|it| it.0).skip(1);
    let is_within = ends.any(|end| taken.contains(&leaf[..end]) && !is_handed(&leaf[..end]));
    let is_helped = HANDED.iter().any(|(part, name)| {
        let rest = leaf.strip_prefix(part);
        taken.contains(part) && rest.is_some_and(|it| helped.contains(&*format!("{name}{it}")))
    });
    taken.contains(leaf) || is_within || is_helped
}

#[test]
fn a_value_that_only_the_other_component_reads_is_not_read() {
    let taken = BTreeSet::from([".gateway.podLabels", ".gateway.resources", ".operator"]);
    let helped = BTreeSet::from([".nodeSelector"]);
    let read = |leaf: &str| is_read(leaf, &taken, &helped);
    assert!(read(".gateway.podLabels") && read(".gateway.resources.limits"));
    assert!(read(".operator.nodeSelector"));
    assert!(!read(".operator.podLabels") && !read(".gateway.nodeSelector"));
}

#[test]
fn a_key_on_one_side_only_is_found() {
    let schema = serde_json::json!({
        "additionalProperties": false,
        "properties": {
            "both": {"description": "x", "$ref": "#/$defs/part"},
            "missing": {"description": "x", "type": "string"},
        },
        "$defs": {"part": {"properties": {"name": {"type": "string"}}}},
    });
    let values = serde_json::json!({"both": {"name": "n"}, "stray": 1});
    let compared = Comparison::of(&values, &schema);
    assert_eq!(
        compared.findings,
        [
            ".stray: not in the schema",
            ".both: takes any key",
            ".both.name: no description",
            ".missing: in the schema only",
        ]
    );
    assert_eq!(compared.leaves, BTreeSet::from([".both.name".to_owned()]));
}

/// Words as templates separate them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '.' | '_' | '$')))
}
