//! What the chart holds.

use std::fs;
use std::path::Path;

use super::*;
use crate::{FOLDER, HEADER, definition, file_name, render};

/// An object may not be larger for `kubectl apply`.
const MOST_BYTES: usize = 256 * 1024;

#[test]
fn checked_in_files_are_current_and_small() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(FOLDER);
    for definition in definitions().unwrap() {
        let path = folder.join(file_name(&definition));
        let text = render(&definition).unwrap();
        let held = fs::read_to_string(&path).unwrap();
        assert!(
            held == text,
            "{} is not current: run `cargo run -p hangar-crds --bin crdgen -- write`",
            path.display()
        );
        assert!(text.len() < MOST_BYTES, "{} bytes", text.len());
    }
}

#[test]
fn a_file_is_headed_and_reads_back_as_its_definition() {
    for definition in definitions().unwrap() {
        let text = render(&definition).unwrap();
        assert!(text.starts_with(HEADER));
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        // Numbers are compared as JSON texts do: 1.0 is 1.
        assert_eq!(rounded(read), rounded(definition));
    }
}

#[test]
fn what_helm_would_read_is_refused() {
    let error = render(&json!({"description": "{{ .Values.x }}"})).unwrap_err();
    assert!(matches!(error, definition::Error::Braces));
    assert_eq!(error.reason(), "braces");
}

#[test]
fn names_scope_and_columns_are_as_documented() {
    let [upstream, policy] = definitions().unwrap();
    for (definition, names) in [
        (&upstream, ["mcpupstreams", "mcpupstream", "mcpup"]),
        (&policy, ["tenantpolicies", "tenantpolicy", "tpol"]),
    ] {
        let spec = &definition["spec"];
        assert_eq!(spec["group"], crate::GROUP);
        assert_eq!(spec["scope"], "Namespaced");
        assert_eq!(spec["names"]["categories"], json!(["hangar", "mcp"]));
        assert_eq!(spec["names"]["plural"], names[0]);
        assert_eq!(spec["names"]["singular"], names[1]);
        assert_eq!(spec["names"]["shortNames"], json!([names[2]]));
        assert_eq!(spec["versions"].as_array().unwrap().len(), 1);
        assert_eq!(spec["versions"][0]["name"], crate::VERSION);
        assert_eq!(spec["versions"][0]["subresources"], json!({"status": {}}));
        assert_eq!(
            definition["metadata"]["annotations"]["helm.sh/resource-policy"],
            "keep"
        );
    }
    assert_eq!(
        columns(&upstream),
        [
            ("Ready", 0),
            ("Gateways", 0),
            ("Tools", 0),
            ("Drift", 0),
            ("Age", 0),
            ("URL", 1),
            ("Era", 1)
        ]
    );
    assert_eq!(
        columns(&policy),
        [("Tenant", 0), ("Ready", 0), ("Gateways", 0), ("Age", 0)]
    );
}

/// Columns by name, and from which width on they are shown.
fn columns(definition: &Value) -> Vec<(&str, i64)> {
    definition["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            let name = column["name"].as_str().unwrap();
            (name, column["priority"].as_i64().unwrap_or_default())
        })
        .collect()
}

/// With whole numbers written as such.
fn rounded(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| *member = rounded(member.take())),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| *item = rounded(item.take())),
        Value::Number(number) => {
            let whole = number.to_string();
            if let Some(Ok(whole)) = whole.strip_suffix(".0").map(str::parse::<i64>) {
                value = whole.into();
            }
        }
        _ => {}
    }
    value
}
