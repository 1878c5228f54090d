//! The method table.

use super::*;

#[test]
fn built_methods_parse_and_label_themselves() {
    for method in Method::ALL {
        assert_eq!(Method::parse(method.as_str()), Some(method));
        assert_eq!(label(method.as_str()), method.as_str());
        assert_eq!(method.is_task(), method.as_str().starts_with("tasks/"));
        assert_eq!(method.items().is_some(), method.as_str().ends_with("/list"));
    }
}

#[test]
fn all_else_is_unknown_and_labels_are_closed() {
    for text in [
        "tasks/list",
        "tasks/result",
        "initialize",
        "ping",
        "resources/subscribe",
    ] {
        assert_eq!(Method::parse(text), None, "{text}");
        assert_eq!(label(text), text);
    }
    for text in ["", "Tools/call", "tools/call ", "tools/calls", "x/9f1c"] {
        assert_eq!(Method::parse(text), None, "{text}");
        assert_eq!(label(text), "other", "{text}");
    }
}
