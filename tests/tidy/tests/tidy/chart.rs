//! What the charts say equals what the code says. Needs no Helm: templates are read as text.

mod values;

use std::collections::BTreeSet;
use std::fs;

use hangar_tidy::{Source, literals, root, sources};
use serde_json::Value;

use crate::assert_none;
use crate::ports::listening;

const TEMPLATES: &str = "charts/hangar/templates/";

/// Each binary with its template.
const BINARIES: &[(&str, &str)] = &[
    ("operator", "charts/hangar/templates/operator.yaml"),
    ("gateway", "charts/hangar/templates/gateway.yaml"),
];

/// A constant of the code whose text the template must hold.
const SHARED_NAMES: &[(&str, &str, &str)] = &[
    (
        "crds/wire/src/message.rs",
        "TOKEN_AUDIENCE",
        "templates/gateway.yaml",
    ),
    (
        "operator/src/pki/cluster.rs",
        "CONFIG_MAP",
        "templates/gateway.yaml",
    ),
    (
        "operator/src/pki/cluster.rs",
        "CA_KEY",
        "templates/gateway.yaml",
    ),
    (
        "operator/src/pki/cluster.rs",
        "CONFIG_MAP",
        "templates/_rules.tpl",
    ),
    (
        "operator/src/pki/cluster.rs",
        "SECRET",
        "templates/_rules.tpl",
    ),
    (
        "operator/src/epoch/cluster.rs",
        "NAME",
        "templates/_rules.tpl",
    ),
];

#[test]
fn the_operator_may_do_in_a_release_what_its_rules_say() {
    let rbac = read("operator/rbac.yaml");
    let declared = |kind: &str| {
        let head = format!("kind: {kind}\n");
        let document = rbac.split("\n---\n").find(|it| it.contains(&head));
        let (_, rules) = document.expect(kind).split_once("\nrules:\n").expect(kind);
        rules.trim_end().to_owned()
    };
    let parts = read("charts/hangar/templates/_rules.tpl");
    let part = |name: &str| {
        let head = format!("{{{{- define \"hangar.rules.{name}\" -}}}}\n");
        let (_, rest) = parts.split_once(&head).expect(name);
        rest.split_once("\n{{- end }}").expect(name).0
    };
    let cluster_wide = format!("{}\n{}", part("objects"), part("tokens"));
    assert_eq!(declared("ClusterRole"), cluster_wide);
    assert_eq!(declared("Role"), part("own"));

    // A rule beside these parts would be compared with nothing.
    for file in templates() {
        let is_parts = file.path.ends_with("/_rules.tpl");
        assert!(
            is_parts || !file.text.contains("apiGroups:"),
            "{}",
            file.path
        );
    }
}

#[test]
fn charts_carry_version_and_licence_of_the_workspace() {
    let mut findings = Vec::new();
    for chart in ["hangar", "hangar-crds"] {
        let path = format!("charts/{chart}/Chart.yaml");
        let found = yaml(&path);
        let mut same = |key: &str, found: &Value, wanted: &str| {
            if found != wanted {
                findings.push(format!("{path}: {key} is {found} and not {wanted}"));
            }
        };
        let version = env!("CARGO_PKG_VERSION");
        same("name", &found["name"], chart);
        same("version", &found["version"], version);
        same("appVersion", &found["appVersion"], version);
        let licence = &found["annotations"]["artifacthub.io/license"];
        same("licence", licence, &workspace_licence());
        for key in ["description", "kubeVersion"] {
            if !found[key].is_string() {
                findings.push(format!("{path}: no {key}"));
            }
        }
    }
    assert_none("Chart.yaml", &findings);
}

#[test]
fn ports_of_the_chart_are_those_of_the_code() {
    for (binary, template) in BINARIES {
        let template = read(template);
        let opened: BTreeSet<_> = after(&template, "containerPort: ").collect();
        let args = read(&format!("{binary}/src/args.rs"));
        assert_eq!(opened, listening(&args), "containerPort of {binary}");

        // What probes and Services call by name must be a port of the pod.
        let named: BTreeSet<_> = after(&template, "{name: ")
            .zip(template.lines().filter(|it| it.contains("{name: ")))
            .filter(|(_, line)| line.contains("containerPort: "))
            .map(|(name, _)| name)
            .collect();
        let targets = after(&template, "targetPort: ").chain(after(&template, " port: "));
        let lost: Vec<_> = targets
            .filter(|it| !it.is_empty() && !it.chars().all(|c| c.is_ascii_digit()))
            .filter(|it| !named.contains(it))
            .collect();
        assert!(lost.is_empty(), "{binary}: {lost:?} is none of {named:?}");
    }
    let gateway = read("charts/hangar/templates/gateway.yaml");
    let operator = read("charts/hangar/templates/operator.yaml");
    let push = after(&gateway, "--operator=https://hangar-operator:").next();
    let push = push.expect("the operator's URL");
    assert!(
        operator.contains(&format!("{{name: push, port: {push}, targetPort: push}}")),
        "no Service has the push port {push}"
    );
    let values = yaml("charts/hangar/values.yaml");
    let mcp = &values["gateway"]["service"]["port"];
    assert!(
        gateway.contains(&format!("{{name: mcp, containerPort: {mcp}}}")),
        "the Service's default port differs from the pod's"
    );
}

#[test]
fn every_flag_of_a_template_is_one_of_its_binary() {
    let mut findings = Vec::new();
    for (binary, template) in BINARIES {
        let mut args = read(&format!("{binary}/src/args.rs"));
        if args.contains("mod edge;") {
            args.push_str(&read(&format!("{binary}/src/args/edge.rs")));
        }
        let variables: BTreeSet<_> = literals(&args)
            .filter(|it| it.starts_with("HANGAR_"))
            .collect();
        let text = read(template);
        let flags: Vec<_> = after(&text, "- --").collect();
        assert!(
            flags.len() >= 4,
            "flags are not where they are looked for: {flags:?}"
        );
        for flag in flags {
            // Flag and variable have one name.
            let variable = format!("HANGAR_{}", flag.to_uppercase().replace('-', "_"));
            if !variables.contains(variable.as_str()) {
                findings.push(format!("{template}: {binary} has no --{flag}"));
            }
        }
        for name in after(&text, "name: HANGAR_") {
            if !variables.contains(format!("HANGAR_{name}").as_str()) {
                findings.push(format!("{template}: {binary} does not read HANGAR_{name}"));
            }
        }
    }
    assert_none("flags in templates", &findings);
}

#[test]
fn names_that_chart_and_code_share_are_equal() {
    let mut findings = Vec::new();
    for (file, constant, template) in SHARED_NAMES {
        let code = read(file);
        let line = code
            .lines()
            .find(|line| line.contains(&format!("const {constant}: ")))
            .expect(constant);
        let name = literals(line).next().expect(constant);
        if !read(&format!("charts/hangar/{template}")).contains(name) {
            findings.push(format!(
                "{file}: {constant} is {name}, which {template} lacks"
            ));
        }
    }
    assert_none("names", &findings);
}

#[test]
fn a_gateway_has_time_to_drain() {
    let number = |path: &str, before: &str| -> u32 {
        let text = read(path);
        let found = after(&text, before).next().expect(before);
        found.parse().expect(before)
    };
    let drain = number(
        "gateway/src/args/edge.rs",
        "env = \"HANGAR_DRAIN_TIMEOUT\",\n        value_name = \"SECONDS\",\n        default_value = \"",
    );
    let grace = number(BINARIES[1].1, "terminationGracePeriodSeconds: ");
    assert!(grace > drain + 5, "{grace} s for a drain of {drain} s");
}

/// The name or number that follows each of these, up to the first other character.
fn after<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = String> + 'a {
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    text.split(before)
        .skip(1)
        .map(move |rest| rest.chars().take_while(|c| is_part(*c)).collect())
}

fn templates() -> Vec<Source> {
    let found = sources(|path| path.starts_with(TEMPLATES));
    assert!(
        found.len() >= 5,
        "templates are not where they are looked for"
    );
    found
}

fn workspace_licence() -> String {
    let manifest = read("Cargo.toml");
    let line = manifest.lines().find(|line| line.starts_with("license = "));
    let found = line.and_then(|line| literals(line).next());
    found.expect("a licence in Cargo.toml").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

fn yaml(path: &str) -> Value {
    serde_saphyr::from_str(&read(path)).expect(path)
}
