//! An McpUpstream becomes its wire form, or a refusal.
//!
//! Every struct of the spec is taken apart without `..`: a field that is added and forgotten here
//! does not compile.

use std::collections::{BTreeMap, BTreeSet};

use hangar_crds as api;
use hangar_wire::{
    Admission, NewTools, ObjectDigest, Pinning, PinningMode, Protocol, Sha256Hex, ToolRules,
    Upstream, UpstreamLimits, UpstreamTasks,
};

use crate::parse;
use crate::reason::{Reason, Refusal};
use crate::world::Meta;

/// An accepted McpUpstream.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) wire: Upstream,
    pub(crate) digest: ObjectDigest,
    pub(crate) sharing: Sharing,
}

/// Whose policies may refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    Same,
    All,
}

/// Restricting features that came after the first version; this one knows none.
const KNOWN_REQUIREMENTS: [&str; 0] = [];
const MAX_REQUIREMENTS: usize = 16;
const SECOND: u64 = 1_000;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// Path of a Service where the object names none.
const DEFAULT_PATH: &str = "/mcp";
const MAX_PINNED_TOOLS: usize = 256;
const MAX_PINS: usize = 4;
const MAX_TOOL_NAME_BYTES: usize = 128;
const MIN_RESPONSE_BYTES: u64 = 1 << 10;
const MAX_RESPONSE_BYTES: u64 = 1 << 30;
const MAX_CONCURRENT: u32 = 65_535;

/// Reads a spec.
pub(crate) fn form(meta: &Meta, spec: &api::McpUpstreamSpec) -> Result<Form, Refusal> {
    let api::McpUpstreamSpec {
        class_name: _, // the world reads it
        endpoint,
        protocol,
        admission,
        tls,
        credential,
        forward_identity,
        allowed_policies,
        tools,
        tasks,
        limits,
        requires,
    } = spec;
    requirements(requires.as_deref())?;
    parse::dns_label("metadata.namespace", &meta.place.namespace)?;
    parse::object_name("metadata.name", &meta.place.name)?;
    check_tls(tls.as_ref())?;
    if credential.is_some() {
        return Err(Refusal::unsupported("spec.credential", "a credential"));
    }
    if forward_identity.is_some() {
        return Err(Refusal::unsupported(
            "spec.forwardIdentity",
            "an identity token for the upstream",
        ));
    }
    let (tools, pinning) = read_tools(tools.as_ref())?;
    let wire = Upstream {
        namespace: meta.place.namespace.clone(),
        name: meta.place.name.clone(),
        uid: meta.uid.clone(),
        generation: meta.generation,
        url: url_of(&meta.place.namespace, endpoint)?,
        protocol: read_protocol(*protocol),
        admission: read_admission(*admission),
        tools,
        pinning,
        tasks: read_tasks(tasks.as_ref())?,
        limits: read_limits(limits.as_ref())?,
    };
    let digest = wire
        .digest()
        .map_err(|error| Refusal::invalid("spec", format_args!("cannot be encoded: {error}")))?;
    Ok(Form {
        wire,
        digest,
        sharing: read_sharing(allowed_policies.as_ref())?,
    })
}

fn requirements(requires: Option<&[String]>) -> Result<(), Refusal> {
    let requires = requires.unwrap_or_default();
    parse::at_most("spec.requires", requires.len(), MAX_REQUIREMENTS)?;
    for (index, name) in requires.iter().enumerate() {
        parse::text(&format!("spec.requires[{index}]"), name, 63)?;
        if !KNOWN_REQUIREMENTS.contains(&name.as_str()) {
            return Err(Refusal::new(
                Reason::UnknownRequirement,
                format!(
                    "spec.requires[{index}]: this version does not know `{name}`, run one that does"
                ),
            ));
        }
    }
    Ok(())
}

fn read_protocol(protocol: Option<api::Protocol>) -> Protocol {
    match protocol {
        None | Some(api::Protocol::Auto) => Protocol::Auto,
        Some(api::Protocol::V2026_07_28) => Protocol::V2026_07_28,
        Some(api::Protocol::V2025_11_25) => Protocol::V2025_11_25,
    }
}

fn check_tls(tls: Option<&api::UpstreamTls>) -> Result<(), Refusal> {
    let Some(api::UpstreamTls {
        ca_ref,
        client_certificate_ref,
        server_name,
    }) = tls
    else {
        return Ok(());
    };
    if ca_ref.is_some() {
        return Err(Refusal::unsupported("spec.tls.caRef", "a CA of its own"));
    }
    if client_certificate_ref.is_some() {
        return Err(Refusal::unsupported(
            "spec.tls.clientCertificateRef",
            "a client certificate",
        ));
    }
    if server_name.is_some() {
        return Err(Refusal::unsupported(
            "spec.tls.serverName",
            "another server name",
        ));
    }
    Ok(())
}

fn url_of(namespace: &str, endpoint: &api::Endpoint) -> Result<String, Refusal> {
    let api::Endpoint { url, service } = endpoint;
    match (url, service) {
        (Some(url), None) => {
            parse::endpoint_url("spec.endpoint.url", url)?;
            Ok(url.clone())
        }
        (None, Some(service)) => service_url(namespace, service),
        (Some(_), Some(_)) => Err(Refusal::invalid(
            "spec.endpoint",
            "`url` and `service` are both set, remove one",
        )),
        (None, None) => Err(Refusal::invalid(
            "spec.endpoint",
            "neither `url` nor `service` is set, set one",
        )),
    }
}

fn service_url(namespace: &str, service: &api::ServiceEndpoint) -> Result<String, Refusal> {
    let api::ServiceEndpoint {
        name,
        port,
        path,
        tls,
    } = service;
    parse::dns_label("spec.endpoint.service.name", name)?;
    let port = parse::in_bounds("spec.endpoint.service.port", *port, 1..=65_535)?;
    let path = path.as_deref().unwrap_or(DEFAULT_PATH);
    if !path.starts_with('/') {
        return Err(Refusal::invalid(
            "spec.endpoint.service.path",
            "must start with `/`",
        ));
    }
    let scheme = if tls.unwrap_or(true) { "https" } else { "http" };
    let url = format!("{scheme}://{name}.{namespace}.svc:{port}{path}");
    parse::endpoint_url("spec.endpoint.service.path", &url)?;
    Ok(url)
}

pub(crate) fn read_admission(admission: Option<api::Admission>) -> Admission {
    match admission {
        None | Some(api::Admission::Open) => Admission::Open,
        Some(api::Admission::NoNewTasks) => Admission::NoNewTasks,
        Some(api::Admission::Closed) => Admission::Closed,
    }
}

fn read_sharing(allowed: Option<&api::AllowedPolicies>) -> Result<Sharing, Refusal> {
    let Some(api::AllowedPolicies {
        namespaces: api::AllowedNamespaces { from, selector },
    }) = allowed
    else {
        return Ok(Sharing::Same);
    };
    let sharing = match from {
        api::From::Same => Sharing::Same,
        api::From::All => Sharing::All,
        api::From::Selector => {
            return Err(Refusal::unsupported(
                "spec.allowedPolicies.namespaces.from",
                "a selector of namespaces",
            ));
        }
    };
    if selector.is_some() {
        return Err(Refusal::invalid(
            "spec.allowedPolicies.namespaces.selector",
            "is for `from: Selector` only, remove it",
        ));
    }
    Ok(sharing)
}

fn read_tools(tools: Option<&api::UpstreamTools>) -> Result<(ToolRules, Pinning), Refusal> {
    let none = api::UpstreamTools::default();
    let api::UpstreamTools {
        allow,
        deny,
        pinning,
        pins,
        max_age,
    } = tools.unwrap_or(&none);
    let rules = tool_rules("spec.tools", allow.as_deref(), deny.as_deref())?;
    let (mode, new_tools) = read_pinning(pinning.as_ref())?;
    let max_age_ms = match max_age {
        None => 60 * SECOND,
        Some(text) => parse::duration_ms("spec.tools.maxAge", text, SECOND..=DAY)?,
    };
    let pinning = Pinning {
        mode,
        new_tools,
        pins: read_pins(pins.as_ref())?,
        max_age_ms,
    };
    Ok((rules, pinning))
}

/// Globs with their defaults: everything is allowed, nothing denied.
pub(crate) fn tool_rules(
    path: &str,
    allow: Option<&[String]>,
    deny: Option<&[String]>,
) -> Result<ToolRules, Refusal> {
    let rules = ToolRules {
        allow: allow.map_or_else(|| vec!["*".to_owned()], <[String]>::to_vec),
        deny: deny.unwrap_or_default().to_vec(),
    };
    parse::globs(&format!("{path}.allow"), &rules.allow)?;
    parse::globs(&format!("{path}.deny"), &rules.deny)?;
    Ok(rules)
}

fn read_pinning(pinning: Option<&api::Pinning>) -> Result<(PinningMode, NewTools), Refusal> {
    let Some(api::Pinning { mode, new_tools }) = pinning else {
        return Ok((PinningMode::FirstUse, NewTools::Serve));
    };
    let mode = match mode {
        None | Some(api::PinningMode::FirstUse) => PinningMode::FirstUse,
        Some(api::PinningMode::Explicit) => PinningMode::Explicit,
        Some(api::PinningMode::Disabled) => PinningMode::Disabled,
    };
    match (mode, new_tools) {
        (_, None) | (PinningMode::FirstUse, Some(api::NewTools::Serve)) => {
            Ok((mode, NewTools::Serve))
        }
        (PinningMode::FirstUse, Some(api::NewTools::Withhold)) => Ok((mode, NewTools::Withhold)),
        (PinningMode::Explicit | PinningMode::Disabled, Some(_)) => Err(Refusal::invalid(
            "spec.tools.pinning.newTools",
            "is for `mode: FirstUse` only, remove it",
        )),
    }
}

fn read_pins(
    pins: Option<&BTreeMap<String, Vec<String>>>,
) -> Result<BTreeMap<String, BTreeSet<Sha256Hex>>, Refusal> {
    let Some(pins) = pins else {
        return Ok(BTreeMap::new());
    };
    parse::at_most("spec.tools.pins", pins.len(), MAX_PINNED_TOOLS)?;
    let mut read = BTreeMap::new();
    for (tool, digests) in pins {
        parse::text("spec.tools.pins", tool, MAX_TOOL_NAME_BYTES)?;
        let path = format!("spec.tools.pins[{tool}]");
        parse::in_bounds(&path, digests.len(), 1..=MAX_PINS)
            .map_err(|_| Refusal::invalid(&path, "must hold 1 to 4 approved digests"))?;
        let mut set = BTreeSet::new();
        for (index, digest) in digests.iter().enumerate() {
            let digest: Sha256Hex = digest.parse().map_err(|_| {
                Refusal::invalid(
                    format_args!("{path}[{index}]"),
                    "is not `sha256:` and 64 lower-case hexadecimal digits",
                )
            })?;
            if !set.insert(digest) {
                return Err(Refusal::invalid(
                    format_args!("{path}[{index}]"),
                    "stands here twice, remove one",
                ));
            }
        }
        read.insert(tool.clone(), set);
    }
    Ok(read)
}

fn read_tasks(tasks: Option<&api::UpstreamTasks>) -> Result<UpstreamTasks, Refusal> {
    let (relay, retention) = match tasks {
        Some(api::UpstreamTasks { relay, retention }) => (*relay, retention.as_deref()),
        None => (None, None),
    };
    let retention_ms = match retention {
        None => DAY,
        Some(text) => parse::duration_ms("spec.tasks.retention", text, SECOND..=365 * DAY)?,
    };
    Ok(UpstreamTasks {
        relay: relay.unwrap_or(true),
        retention_ms,
    })
}

fn read_limits(limits: Option<&api::UpstreamLimits>) -> Result<UpstreamLimits, Refusal> {
    let (timeout, size, concurrent) = match limits {
        Some(api::UpstreamLimits {
            request_timeout,
            max_response_bytes,
            max_concurrent,
        }) => (
            request_timeout.as_deref(),
            max_response_bytes.as_deref(),
            *max_concurrent,
        ),
        None => (None, None, None),
    };
    let request_timeout_ms = match timeout {
        None => 30 * SECOND,
        Some(text) => parse::duration_ms("spec.limits.requestTimeout", text, SECOND..=HOUR)?,
    };
    let max_response_bytes = match size {
        None => 16 << 20,
        Some(text) => parse::size_bytes(
            "spec.limits.maxResponseBytes",
            text,
            MIN_RESPONSE_BYTES..=MAX_RESPONSE_BYTES,
        )?,
    };
    Ok(UpstreamLimits {
        request_timeout_ms,
        max_response_bytes,
        max_concurrent: parse::count(
            "spec.limits.maxConcurrent",
            concurrent,
            256,
            1..=MAX_CONCURRENT,
        )?,
    })
}
