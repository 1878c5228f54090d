//! Documents, lines, errors.

use serde_json::json;

use super::*;

const TWO: &str = "\
# a comment
kind: One
spec:
  tools:
    allow: [\"*\",
      \"b\"]
    deny:
    - x
---
kind: Two
value: 8080
on: true
";

#[test]
fn values_and_lines() {
    let documents: Vec<Document> = split(TWO).into_iter().map(Result::unwrap).collect();
    assert_eq!(documents.len(), 2);
    let [one, two] = documents.as_slice() else {
        panic!("two documents");
    };
    assert_eq!(
        one.value,
        json!({"kind": "One", "spec": {"tools": {"allow": ["*", "b"], "deny": ["x"]}}})
    );
    assert_eq!(one.line_of("spec.tools.allow[1]"), 6);
    assert_eq!(one.line_of("spec.tools.deny[0]"), 8);
    assert_eq!(one.line_of("spec.tools.pins.crawl"), 4);
    assert_eq!(one.line_of("status"), 1);
    assert_eq!(two.value, json!({"kind": "Two", "value": 8080, "on": true}));
    assert_eq!(two.line_of("value"), 11);
}

#[test]
fn a_syntax_error_costs_its_own_document() {
    let text = "kind: A\n---\nkind: B\nspec: [1, 2\n---\nkind: C\n";
    let documents = split(text);
    assert_eq!(documents.len(), 3);
    assert_eq!(documents[0].as_ref().unwrap().value, json!({"kind": "A"}));
    let error = documents[1].as_ref().unwrap_err();
    assert!((3..=5).contains(&error.line), "{error:?}");
    assert_eq!(documents[2].as_ref().unwrap().value, json!({"kind": "C"}));
}

#[test]
fn empty_documents_are_left_out() {
    assert!(split("").is_empty());
    assert!(split("---\n# nothing\n---\n\n...\n").is_empty());
    assert!(split("null\n").is_empty());
    assert_eq!(split("%YAML 1.2\n---\nkind: A\n").len(), 1);
}

#[test]
fn json_is_read_and_duplicate_keys_are_refused() {
    let documents = split("{\"kind\": \"A\",\n \"n\": [1, null, 2.5]}");
    let document = documents[0].as_ref().unwrap();
    assert_eq!(document.value, json!({"kind": "A", "n": [1, null, 2.5]}));
    assert_eq!(document.line_of("n[2]"), 2);
    assert!(split("a: 1\na: 2\n")[0].is_err());
}

#[test]
fn an_error_never_quotes_a_value() {
    for text in [
        "stringData:\n  alice: \"top-secret-key\n",
        "stringData:\n  alice: 'top-secret-key\nb: c",
        "stringData: {alice: top-secret-key, alice: top-secret-key}",
        "stringData:\n  alice: &a top-secret-key\n  bob: *top-secret-key\n",
        "stringData:\n  alice: !!int top-secret-key\n",
    ] {
        if let Some(Err(error)) = split(text).first() {
            assert!(!error.to_string().contains("top-secret"), "{error}");
        }
    }
}
