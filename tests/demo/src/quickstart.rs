//! The manifests of `examples/quickstart/`, pointed at the upstream of this run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Somebody with an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) tenant: String,
    pub(crate) principal: String,
    pub(crate) key: String,
}

/// Where the manifests expect the upstream.
const DECLARED_URL: &str = "http://127.0.0.1:7411/mcp";

/// The file that says so.
const UPSTREAM_FILE: &str = "upstream.yaml";

/// Copies the folder; the upstream is found at `url` then.
pub(crate) fn copy(from: &Path, to: &Path, url: &str) -> Result<Vec<String>> {
    fs::create_dir_all(to)?;
    let mut names = Vec::new();
    let entries = fs::read_dir(from).with_context(|| format!("{}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let mut text = fs::read_to_string(entry.path())
            .with_context(|| format!("{}", entry.path().display()))?;
        if name == UPSTREAM_FILE {
            ensure!(
                text.contains(DECLARED_URL),
                "{name} does not name {DECLARED_URL}"
            );
            text = text.replace(DECLARED_URL, url);
        }
        fs::write(to.join(&name), text)?;
        names.push(name);
    }
    ensure!(
        names.iter().any(|name| name == UPSTREAM_FILE),
        "there is no {UPSTREAM_FILE} in {}",
        from.display()
    );
    names.sort();
    Ok(names)
}

/// Everybody whom the policies of this folder admit by API key, by principal.
pub(crate) fn callers(folder: &Path) -> Result<BTreeMap<String, Caller>> {
    let documents = documents(folder)?;
    let secrets: BTreeMap<&str, &Value> = of_kind(&documents, "Secret")
        .filter_map(|secret| Some((secret["metadata"]["name"].as_str()?, secret)))
        .collect();
    let mut callers = BTreeMap::new();
    for policy in of_kind(&documents, "TenantPolicy") {
        let tenant = policy["spec"]["tenant"]
            .as_str()
            .context("a policy without tenant")?;
        for subject in policy["spec"]["subjects"].as_array().into_iter().flatten() {
            let secret = subject["apiKeys"]["secretRef"]["name"].as_str();
            let Some(secret) = secret.and_then(|name| secrets.get(name)) else {
                continue;
            };
            for (principal, keys) in secret["stringData"].as_object().into_iter().flatten() {
                let keys = keys.as_str().unwrap_or_default();
                let key = keys.lines().next().context("a principal without key")?;
                let caller = Caller {
                    tenant: tenant.to_owned(),
                    principal: principal.clone(),
                    key: key.trim().to_owned(),
                };
                callers.insert(principal.clone(), caller);
            }
        }
    }
    Ok(callers)
}

fn documents(folder: &Path) -> Result<Vec<Value>> {
    let mut documents = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "yaml") {
            let text = fs::read_to_string(&path)?;
            let more = serde_saphyr::from_multiple::<Value>(&text);
            documents.extend(more.with_context(|| format!("{}", path.display()))?);
        }
    }
    Ok(documents)
}

fn of_kind<'a>(documents: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    documents
        .iter()
        .filter(move |document| document["kind"] == kind)
}
