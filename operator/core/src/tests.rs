//! Fixtures; the tests stand beside.

mod keys;
mod parse;
mod policy;
mod status;
mod tenancy;
mod upstream;
mod world;

use hangar_wire::{AddressRules, Kind, ObjectKey, Tenant, Upstream};
use serde_json::{Value, json};

use crate::{
    Change, Compiled, Finding, Object, ObjectId, ObjectKind, Reason, SecretBytes, SecretView,
    Settings, Truth, Verdict, World,
};

/// A manifest in the making.
#[derive(Clone, Debug)]
pub(crate) struct Mk(Value);

/// An McpUpstream `tools/NAME` with the least that one needs.
pub(crate) fn mk_upstream(name: &str) -> Mk {
    Mk(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "McpUpstream",
        "metadata": {"namespace": "tools", "name": name, "uid": format!("u-{name}"), "generation": 1},
        "spec": {"endpoint": {"url": format!("https://{name}.example.com/mcp")}},
    }))
}

/// A TenantPolicy `hangar/NAME` of tenant NAME that nobody is and that reaches nothing.
pub(crate) fn mk_policy(name: &str) -> Mk {
    Mk(json!({
        "apiVersion": "hangar.dev/v1alpha1",
        "kind": "TenantPolicy",
        "metadata": {"namespace": "hangar", "name": name, "uid": format!("p-{name}"), "generation": 1},
        "spec": {"tenant": name, "subjects": [], "upstreams": []},
    }))
}

/// A labelled Secret `hangar/NAME`.
pub(crate) fn mk_keys(name: &str, data: &[(&str, &str)]) -> SecretView {
    SecretView {
        namespace: "hangar".into(),
        name: name.into(),
        purpose: Some("api-keys".into()),
        data: data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), SecretBytes::new(*value)))
            .collect(),
    }
}

/// An entry of `spec.subjects` for a Secret.
pub(crate) fn mk_key_subject(secret: &str) -> Value {
    json!({"name": secret, "type": "APIKeys", "apiKeys": {"secretRef": {"name": secret}}})
}

/// An entry of `spec.upstreams` for `tools/NAME`.
pub(crate) fn mk_grant(name: &str) -> Value {
    json!({"name": name, "upstreamRef": {"name": name, "namespace": "tools"}})
}

pub(crate) fn mk_world() -> World {
    World::new(Settings {
        class: "hangar".into(),
        policy_namespaces: Some(["hangar".to_owned()].into()),
        addresses: AddressRules::default(),
    })
}

/// A world of these.
pub(crate) fn mk_compiled(objects: impl IntoIterator<Item = Object>) -> Compiled {
    let mut world = mk_world();
    for object in objects {
        world.apply(Change::Apply(object));
    }
    world.compile()
}

pub(crate) fn upstream_key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::McpUpstream, "tools", name)
}

pub(crate) fn policy_key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::TenantPolicy, "hangar", name)
}

/// Fails unless the finding is False for this reason, and all words are in its message.
#[track_caller]
pub(crate) fn assert_refused(finding: &Finding, reason: Reason, words: &[&str]) {
    assert_eq!(finding.status, Truth::False, "{finding:?}");
    assert_eq!(finding.reason, reason, "{finding:?}");
    for word in words {
        assert!(finding.message.contains(word), "`{word}` in {finding:?}");
    }
}

// === impl Mk ===

impl Mk {
    /// Sets the value at a JSON pointer, making objects on the way.
    pub(crate) fn at(mut self, pointer: &str, value: Value) -> Self {
        let mut target = &mut self.0;
        for step in pointer.split('/').skip(1) {
            target = match target {
                Value::Array(items) => &mut items[step.parse::<usize>().unwrap()],
                other => &mut other[step],
            };
        }
        *target = value;
        self
    }

    pub(crate) fn generation(self, generation: i64) -> Self {
        self.at("/metadata/generation", generation.into())
    }

    pub(crate) fn uid(self, uid: &str) -> Self {
        self.at("/metadata/uid", uid.into())
    }

    /// Seconds after an arbitrary hour.
    pub(crate) fn created(self, second: u8) -> Self {
        let time = format!("2026-03-01T10:00:{second:02}Z");
        self.at("/metadata/creationTimestamp", time.into())
    }

    pub(crate) fn object(&self) -> Object {
        let text = self.0.to_string();
        match self.0["kind"].as_str() {
            Some("McpUpstream") => Object::Upstream(serde_json::from_str(&text).unwrap()),
            Some("TenantPolicy") => Object::Policy(serde_json::from_str(&text).unwrap()),
            other => panic!("no fixture of kind {other:?}"),
        }
    }

    pub(crate) fn apply(&self) -> Change {
        Change::Apply(self.object())
    }

    pub(crate) fn delete(&self) -> Change {
        Change::Delete(self.object().id())
    }
}

// === impl Compiled ===

impl Compiled {
    #[track_caller]
    pub(crate) fn verdict(&self, key: &ObjectKey) -> &Verdict {
        self.verdicts.get(key).unwrap()
    }

    #[track_caller]
    pub(crate) fn upstream(&self, name: &str) -> &Upstream {
        self.upstreams.iter().find(|it| it.name == name).unwrap()
    }

    #[track_caller]
    pub(crate) fn tenant(&self, name: &str) -> &Tenant {
        self.tenants.iter().find(|it| it.name == name).unwrap()
    }

    pub(crate) fn tenant_names(&self) -> Vec<&str> {
        self.tenants.iter().map(|it| it.name.as_str()).collect()
    }
}

/// An id of a fixture Secret.
pub(crate) fn secret_id(name: &str) -> ObjectId {
    ObjectId::new(ObjectKind::Secret, "hangar", name)
}
