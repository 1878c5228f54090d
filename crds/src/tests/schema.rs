//! The schema itself: bounds everywhere, nothing that an API server warns of.

use kube_cel::compile_schema;
use regex::Regex;

use super::*;

const KINDS: [&str; 2] = ["McpUpstream", "TenantPolicy"];
/// Optional strings and numbers without a default of their own: members of a one-of, and a name that
/// is taken from the URL.
const WITHOUT_DEFAULT: [&str; 2] = ["url", "serverName"];

/// Calls with each schema below this one, and where it is.
fn walk(schema: &Value, path: &str, seen: &mut dyn FnMut(&str, &Value)) {
    seen(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(property, &format!("{path}.{name}"), seen);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            walk(&schema[inner], &format!("{path}[]"), seen);
        }
    }
}

/// Each schema of both kinds, spec and status.
fn walk_all(mut seen: impl FnMut(&str, &Value)) {
    for kind in KINDS {
        let schema = schema_of(kind);
        for part in ["spec", "status"] {
            let path = format!("{kind}.{part}");
            walk(&schema["properties"][part], &path, &mut seen);
        }
    }
}

#[test]
fn every_list_map_string_and_number_is_bounded() {
    let mut count = 0;
    walk_all(|path, schema| {
        count += 1;
        let has = |bound: &str| schema[bound].is_u64();
        let is_status = path.contains(".status");
        let bounded = match schema["type"].as_str() {
            Some("array") => has("maxItems"),
            Some("string") => {
                has("maxLength") || schema["enum"].is_array() || schema["format"] == "date-time"
            }
            Some("object") if schema["additionalProperties"].is_object() => has("maxProperties"),
            // Numbers of the status are ours.
            Some("integer") => {
                is_status || (schema["minimum"].is_number() && schema["maximum"].is_number())
            }
            Some("object") => schema["properties"].is_object(),
            Some("boolean") => true,
            other => panic!("{path} has type {other:?}"),
        };
        assert!(bounded, "{path} has no bound: {schema}");
    });
    assert!(count > 100, "only {count} schemas were seen");
}

#[test]
fn no_default_null_or_unsigned_format() {
    walk_all(|path, schema| {
        for keyword in [
            "default",
            "nullable",
            "oneOf",
            "anyOf",
            "allOf",
            "x-kubernetes-preserve-unknown-fields",
        ] {
            assert!(schema.get(keyword).is_none(), "{path} has {keyword}");
        }
        if let Some(format) = schema.get("format") {
            let known = ["int32", "int64", "date-time"];
            assert!(known.iter().any(|one| format == one), "{path}: {format}");
        }
        for allowed in schema["enum"].as_array().into_iter().flatten() {
            assert!(allowed.is_string(), "{path} allows {allowed}");
        }
    });
}

#[test]
fn every_pattern_compiles_and_is_anchored() {
    let mut count = 0;
    walk_all(|path, schema| {
        if let Some(pattern) = schema["pattern"].as_str() {
            count += 1;
            assert!(Regex::new(pattern).is_ok(), "{path}: {pattern}");
            assert!(pattern.starts_with('^'), "{path}: {pattern}");
        }
    });
    assert!(count > 5, "only {count} patterns were seen");
}

/// Rules of this place, without those below, that do not compile.
fn errors_at(schema: &Value) -> usize {
    compile_schema(schema).compilation_errors().len()
}

#[test]
fn every_rule_compiles_and_has_words() {
    let mut count = 0;
    walk_all(|path, schema| {
        assert_eq!(errors_at(schema), 0, "{path}");
        for rule in schema["x-kubernetes-validations"]
            .as_array()
            .into_iter()
            .flatten()
        {
            count += 1;
            let message = rule["message"].as_str().unwrap_or_default();
            assert!(!message.is_empty(), "{path}: {rule}");
        }
    });
    assert_eq!(
        errors_at(&json!({"x-kubernetes-validations": [{"rule": "self =="}]})),
        1
    );
    assert!(count >= 18, "only {count} rules were seen");
}

#[test]
fn every_field_is_described_and_optional_values_name_their_default() {
    walk_all(|path, schema| {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let description = property["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "{path}.{name}");
            assert!(!description.contains('\n'), "{path}.{name}: {description}");
            let is_optional = !required.contains(&name.as_str().into());
            let is_value = !["object", "array"].iter().any(|it| property["type"] == *it);
            let is_spec = path.contains(".spec");
            if is_spec && is_optional && is_value && !WITHOUT_DEFAULT.contains(&&**name) {
                assert!(
                    description.contains("Default: "),
                    "{path}.{name}: {description}"
                );
            }
        }
    });
}

#[test]
fn list_types_are_as_documented() {
    let [upstream, policy] = KINDS.map(schema_of);
    let spec = &policy["properties"]["spec"]["properties"];
    for list in [
        &spec["subjects"],
        &spec["upstreams"],
        &upstream["properties"]["status"]["properties"]["tools"],
    ] {
        assert_eq!(list["x-kubernetes-list-type"], "map");
        assert_eq!(list["x-kubernetes-list-map-keys"], json!(["name"]));
    }
    for schema in [&upstream, &policy] {
        let conditions = &schema["properties"]["status"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-list-type"], "map");
        assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    }
}
