//! Pieces that both kinds use.

use std::collections::BTreeMap;

use kube::KubeSchema;
use kube::core::Rule;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

/// The switch for an emergency, without deleting anything.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[schemars(transform = describe_by_field)]
pub enum Admission {
    /// Everything is admitted.
    Open,
    /// Calls go on, no task is born.
    NoNewTasks,
    /// Only `tasks/cancel`, and what the ledger can serve alone.
    Closed,
}

/// Globs over tool names. Deny wins. `*` crosses every character.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ToolGlobs {
    /// Which tools may be used. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub allow: Option<Vec<String>>,
    /// Which tools may not be used, whatever `allow` says. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub deny: Option<Vec<String>>,
}

/// An object of the same namespace.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct LocalRef {
    /// Name of the object.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// One key of a Secret of the same namespace. The Secret must carry the label `hangar.dev/use`.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeyRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Key within its data.
    #[schemars(length(min = 1, max = 253))]
    pub key: String,
}

/// Objects by their labels; all of them must match.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels and their values.
    #[schemars(extend("maxProperties" = 16, "minProperties" = 1))]
    #[schemars(with = "BTreeMap<String, LabelValue>")]
    #[x_kube(validation = Rule::new("self.all(key, key.size() <= 317)")
        .message("a label key has at most 317 characters"))]
    pub match_labels: BTreeMap<String, String>,
}

/// Value of a label.
#[derive(JsonSchema)]
#[schemars(transparent, inline)]
#[allow(dead_code)] // a schema only
struct LabelValue(#[schemars(length(max = 63))] String);

/// A duration in Go's form. Days, fractions and signs are refused, and so is zero.
pub(crate) fn duration_rule() -> Rule {
    Rule::new(
        "self.matches('^([0-9]{1,5}(h|m)|[0-9]{1,8}(s|ms)){1,4}$') && duration(self) > duration('0s')",
    )
    .message("use a duration longer than zero, as 30s, 15m or 1h30m")
}

/// Drops the description of a type of which optional fields exist: it would hide the field's own,
/// which names the default.
pub(crate) fn describe_by_field(schema: &mut Schema) {
    schema.remove("description");
}
