//! Which crate may import which: arrows point to the purer crate, and operator and gateway meet
//! only in `hangar-wire`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, PackageId};

use crate::{assert_none, metadata};

/// Each crate and the workspace crates that its own code may import. Tests may import more.
const ALLOWED: &[(&str, &[&str])] = &[
    ("hangar-wire", &[]),
    ("hangar-crds", &[]),
    ("hangar-operator-core", &["hangar-crds", "hangar-wire"]),
    (
        "hangar-operator",
        &["hangar-crds", "hangar-operator-core", "hangar-wire"],
    ),
    ("hangar-relay", &["hangar-wire"]),
    ("hangar-ledger", &["hangar-wire"]),
    ("hangar-store", &["hangar-ledger", "hangar-wire"]),
    (
        "hangar-gateway",
        &[
            "hangar-ledger",
            "hangar-relay",
            "hangar-store",
            "hangar-wire",
        ],
    ),
    ("hangar-tests", &[]),
    // It measures the store itself.
    (
        "hangar-bench",
        &[
            "hangar-ledger",
            "hangar-store",
            "hangar-tests",
            "hangar-wire",
        ],
    ),
    ("hangar-campaign", &["hangar-tidy"]),
    ("hangar-demo", &["hangar-tests"]),
    ("hangar-demo-upstream", &[]),
    ("hangar-e2e", &["hangar-tests"]),
    ("hangar-interop", &["hangar-tests"]),
    ("hangar-rust-peer", &[]),
    ("hangar-tidy", &[]),
    ("hangar-verify", &[]),
];

/// What must not be linked, however deep it hides.
const NEVER_LINKED: &[(&str, &[&str])] = &[
    ("hangar-wire", IO),
    ("hangar-relay", IO),
    ("hangar-ledger", IO),
    ("hangar-store", &["kube-client", "hyper", "axum"]),
    (
        "hangar-gateway",
        &[
            "kube",
            "kube-core",
            "kube-client",
            "k8s-openapi",
            "schemars",
            "rmcp",
            "proptest",
        ],
    ),
    ("hangar-operator", &["rusqlite", "rmcp", "proptest"]),
];

/// What a pure crate has no use for.
const IO: &[&str] = &[
    "tokio",
    "hyper",
    "axum",
    "kube",
    "kube-client",
    "rusqlite",
    "rustls",
    "rand",
    "notify",
    "prometheus",
    "tracing-subscriber",
];

/// The core uses the Kubernetes types as data, so kube is below it; these it may not name itself.
const NEVER_NAMED: &[(&str, &[&str])] = &[
    (
        "hangar-operator-core",
        &[
            "tokio",
            "kube",
            "hyper",
            "axum",
            "rand",
            "notify",
            "futures",
            "prometheus",
        ],
    ),
    ("hangar-verify", &["anyhow", "serde", "tokio"]),
];

#[test]
fn crates_import_only_what_the_table_allows() {
    let metadata = metadata().unwrap();
    let table: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let members = metadata.workspace_packages();
    let names: BTreeSet<_> = members
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut findings = Vec::new();
    for package in &members {
        let Some(allowed) = table.get(package.name.as_str()) else {
            findings.push(format!("{} is not in the table", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let ours = names.contains(dependency.name.as_str());
            let own_code = dependency.kind == DependencyKind::Normal;
            if ours && own_code && !allowed.contains(&dependency.name.as_str()) {
                findings.push(format!(
                    "{} may not import {}",
                    package.name, dependency.name
                ));
            }
        }
    }
    for name in table.keys().filter(|name| !names.contains(**name)) {
        findings.push(format!("{name} is in the table and not in the workspace"));
    }
    assert_none("imports between crates", &findings);
}

#[test]
fn nothing_is_linked_that_does_not_belong() {
    let metadata = metadata().unwrap();
    let mut findings = Vec::new();
    for (name, never) in NEVER_LINKED {
        let linked = linked(&metadata, name).unwrap();
        assert!(linked.contains(*name), "{name} is no package");
        for wrong in never.iter().filter(|wrong| linked.contains(**wrong)) {
            findings.push(format!("{name} links {wrong}"));
        }
    }
    assert_none("linked crates", &findings);
}

#[test]
fn nothing_is_named_that_does_not_belong() {
    let metadata = metadata().unwrap();
    let mut findings = Vec::new();
    for package in metadata.workspace_packages() {
        let table = NEVER_NAMED.iter().find(|(name, _)| package.name == *name);
        let never = table.map_or(&[][..], |(_, never)| *never);
        for dependency in &package.dependencies {
            let own_code = dependency.kind == DependencyKind::Normal;
            if own_code && never.contains(&dependency.name.as_str()) {
                findings.push(format!("{} names {}", package.name, dependency.name));
            }
        }
    }
    assert_none("named crates", &findings);
}

/// The names of all crates in a program's normal dependency tree, itself included.
fn linked(metadata: &Metadata, root: &str) -> Result<BTreeSet<String>> {
    let resolve = metadata.resolve.as_ref().context("no dependency graph")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let package = metadata
        .packages
        .iter()
        .find(|package| package.name == root);
    let mut open: Vec<&PackageId> = package.map(|package| &package.id).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dependency in &nodes[id].deps {
            let normal = |kind: &cargo_metadata::DepKindInfo| kind.kind == DependencyKind::Normal;
            if dependency.dep_kinds.iter().any(normal) {
                open.push(&dependency.pkg);
            }
        }
    }
    let names = seen.iter().map(|id| metadata[id].name.to_string());
    Ok(names.collect())
}
