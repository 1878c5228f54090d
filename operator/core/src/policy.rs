//! A TenantPolicy becomes what it says, references still open, or a refusal.
//!
//! Every struct of the spec is taken apart without `..`: a field that is added and forgotten here
//! does not compile.

use std::collections::{BTreeMap, BTreeSet};

use hangar_crds as api;
use hangar_wire::{
    Admission, AnsweredBy, Consent, Grant, OnDecline, TenantLimits, ToolRules, Visibility,
};

use crate::object::Place;
use crate::parse;
use crate::reason::Refusal;
use crate::upstream::{read_admission, tool_rules};
use crate::world::Meta;

/// An accepted TenantPolicy. The grants are those that it asks for.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) place: Place,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) tenant: String,
    pub(crate) admission: Admission,
    pub(crate) subjects: Vec<SubjectForm>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) limits: TenantLimits,
}

/// One entry of `spec.subjects`.
#[derive(Debug)]
pub(crate) struct SubjectForm {
    pub(crate) name: String,
    pub(crate) source: Source,
}

/// Where the credentials of a subject come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A Secret of the policy's namespace.
    ApiKeys {
        secret: String,
    },
    Anonymous,
}

const MAX_SUBJECTS: usize = 16;
const MAX_UPSTREAMS: usize = 64;
const MAX_PREFIX_BYTES: usize = 63;
const MAX_PRINCIPALS: usize = 64;
const MAX_PRINCIPAL_BYTES: usize = 512;
const MAX_COUNT: u32 = 1_000_000;
const SECOND: u64 = 1_000;
const DAY: u64 = 86_400 * SECOND;
/// Methods of questions that an upstream may ask.
const QUESTION_METHODS: [&str; 3] = [ELICITATION, "sampling/createMessage", "roots/list"];
const ELICITATION: &str = "elicitation/create";
/// What the qualified name of a principal starts with.
const PRINCIPAL_SOURCES: [&str; 3] = ["jwt:", "key:", "sa:"];

/// Reads a spec.
pub(crate) fn form(meta: &Meta, spec: &api::TenantPolicySpec) -> Result<Form, Refusal> {
    let api::TenantPolicySpec {
        class_name: _, // the world reads it
        tenant,
        admission,
        subjects,
        upstreams,
        limits,
        mode,
    } = spec;
    parse::dns_label("metadata.namespace", &meta.place.namespace)?;
    parse::object_name("metadata.name", &meta.place.name)?;
    parse::dns_label("spec.tenant", tenant)?;
    match mode {
        None | Some(api::Mode::Enforce) => {}
        Some(api::Mode::Audit) => {
            return Err(Refusal::unsupported(
                "spec.mode",
                "auditing without enforcement",
            ));
        }
    }
    Ok(Form {
        place: meta.place.clone(),
        uid: meta.uid.clone(),
        generation: meta.generation,
        tenant: tenant.clone(),
        admission: read_admission(*admission),
        subjects: read_subjects(subjects)?,
        grants: read_grants(meta, upstreams)?,
        limits: read_limits(limits.as_ref())?,
    })
}

fn read_subjects(subjects: &[api::Subject]) -> Result<Vec<SubjectForm>, Refusal> {
    parse::at_most("spec.subjects", subjects.len(), MAX_SUBJECTS)?;
    parse::distinct(subjects.iter().map(|it| it.name.as_str()), |index| {
        format!("spec.subjects[{index}].name")
    })?;
    let mut read = Vec::with_capacity(subjects.len());
    let mut anonymous = false;
    for (index, subject) in subjects.iter().enumerate() {
        let path = format!("spec.subjects[{index}]");
        let source = read_source(&path, subject)?;
        if matches!(source, Source::Anonymous) && std::mem::replace(&mut anonymous, true) {
            return Err(Refusal::invalid(
                format_args!("{path}.type"),
                "a second `Anonymous`, one is enough",
            ));
        }
        read.push(SubjectForm {
            name: subject.name.clone(),
            source,
        });
    }
    Ok(read)
}

fn read_source(path: &str, subject: &api::Subject) -> Result<Source, Refusal> {
    let api::Subject {
        name,
        type_,
        jwt,
        service_account,
        api_keys,
    } = subject;
    parse::dns_label(&format!("{path}.name"), name)?;
    let (word, member) = match type_ {
        api::SubjectType::Jwt => ("JWT", Some("jwt")),
        api::SubjectType::ServiceAccount => ("ServiceAccount", Some("serviceAccount")),
        api::SubjectType::ApiKeys => ("APIKeys", Some("apiKeys")),
        api::SubjectType::Anonymous => ("Anonymous", None),
    };
    // First: nobody should fill in what is refused in the end.
    if matches!(
        type_,
        api::SubjectType::Jwt | api::SubjectType::ServiceAccount
    ) {
        return Err(Refusal::unsupported(
            format_args!("{path}.type"),
            format_args!("a subject of type {word}"),
        ));
    }
    let members = [
        ("jwt", jwt.is_some()),
        ("serviceAccount", service_account.is_some()),
        ("apiKeys", api_keys.is_some()),
    ];
    for (name, set) in members {
        match (set, member == Some(name)) {
            (true, false) => {
                return Err(Refusal::invalid(
                    format_args!("{path}.{name}"),
                    format_args!("does not belong to `type: {word}`, remove it or change the type"),
                ));
            }
            (false, true) => {
                return Err(Refusal::invalid(
                    path,
                    format_args!("`type: {word}` needs `{name}`, set it"),
                ));
            }
            (true, true) | (false, false) => {}
        }
    }
    match api_keys {
        Some(api::ApiKeysSubject { secret_ref }) => {
            let api::LocalRef { name } = secret_ref;
            parse::object_name(&format!("{path}.apiKeys.secretRef.name"), name)?;
            Ok(Source::ApiKeys {
                secret: name.clone(),
            })
        }
        None => Ok(Source::Anonymous),
    }
}

fn read_grants(meta: &Meta, entries: &[api::UpstreamEntry]) -> Result<Vec<Grant>, Refusal> {
    parse::at_most("spec.upstreams", entries.len(), MAX_UPSTREAMS)?;
    parse::distinct(entries.iter().map(|it| it.name.as_str()), |index| {
        format!("spec.upstreams[{index}].name")
    })?;
    let mut grants: Vec<Grant> = Vec::with_capacity(entries.len());
    let mut upstreams = BTreeMap::new();
    let mut prefixes = BTreeMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("spec.upstreams[{index}]");
        let grant = read_grant(&path, meta, entry)?;
        let place = (
            grant.upstream_namespace.clone(),
            grant.upstream_name.clone(),
        );
        if let Some(first) = upstreams.insert(place, index) {
            return Err(Refusal::invalid(
                format_args!("{path}.upstreamRef"),
                format_args!(
                    "McpUpstream {}/{} is also the one of spec.upstreams[{first}], keep one entry",
                    grant.upstream_namespace, grant.upstream_name
                ),
            ));
        }
        if let Some(first) = prefixes.insert(grant.prefix.clone(), index) {
            let what = if grant.prefix.is_empty() {
                "empty".to_owned()
            } else {
                format!("`{}`", grant.prefix)
            };
            return Err(Refusal::invalid(
                format_args!("{path}.prefix"),
                format_args!(
                    "is {what} as in spec.upstreams[{first}], tools could not be told apart; \
                     choose another"
                ),
            ));
        }
        grants.push(grant);
    }
    Ok(grants)
}

fn read_grant(path: &str, meta: &Meta, entry: &api::UpstreamEntry) -> Result<Grant, Refusal> {
    let api::UpstreamEntry {
        name,
        upstream_ref,
        selector,
        prefix,
        tools,
        tasks,
    } = entry;
    parse::dns_label(&format!("{path}.name"), name)?;
    let target = match (upstream_ref, selector) {
        (Some(target), None) => target,
        (None, Some(_)) => {
            return Err(Refusal::unsupported(
                format_args!("{path}.selector"),
                "a selector of upstreams",
            ));
        }
        (Some(_), Some(_)) => {
            return Err(Refusal::invalid(
                path,
                "`upstreamRef` and `selector` are both set, remove one",
            ));
        }
        (None, None) => {
            return Err(Refusal::invalid(
                path,
                "neither `upstreamRef` nor `selector` is set, set one",
            ));
        }
    };
    let (upstream_namespace, upstream_name) = read_target(path, meta, target)?;
    let prefix = prefix.as_deref().unwrap_or(name);
    check_prefix(&format!("{path}.prefix"), prefix)?;
    let (visibility, consent) = read_tasks(path, tasks.as_ref())?;
    Ok(Grant {
        name: name.clone(),
        upstream_namespace,
        upstream_name,
        prefix: prefix.to_owned(),
        tools: read_tools(path, tools.as_ref())?,
        visibility,
        consent,
    })
}

fn read_target(
    path: &str,
    meta: &Meta,
    target: &api::UpstreamRef,
) -> Result<(String, String), Refusal> {
    let api::UpstreamRef { name, namespace } = target;
    let namespace = namespace.as_deref().unwrap_or(&meta.place.namespace);
    parse::dns_label(&format!("{path}.upstreamRef.namespace"), namespace)?;
    parse::object_name(&format!("{path}.upstreamRef.name"), name)?;
    Ok((namespace.to_owned(), name.clone()))
}

/// Tools are named `prefix__name`, so a prefix must not hold the separator.
fn check_prefix(path: &str, prefix: &str) -> Result<(), Refusal> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if prefix.len() > MAX_PREFIX_BYTES || !prefix.bytes().all(legal) {
        return Err(Refusal::invalid(
            path,
            format_args!(
                "must be at most {MAX_PREFIX_BYTES} letters, digits, `-`, `_` and `.`, or empty"
            ),
        ));
    }
    if !prefix.is_empty() && prefix.split('_').any(str::is_empty) {
        return Err(Refusal::invalid(
            path,
            "must not hold `__`, nor start or end with `_`: `__` separates prefix and tool",
        ));
    }
    Ok(())
}

fn read_tools(path: &str, tools: Option<&api::ToolGlobs>) -> Result<ToolRules, Refusal> {
    let none = api::ToolGlobs::default();
    let api::ToolGlobs { allow, deny } = tools.unwrap_or(&none);
    tool_rules(&format!("{path}.tools"), allow.as_deref(), deny.as_deref())
}

fn read_tasks(
    path: &str,
    tasks: Option<&api::TenantTasks>,
) -> Result<(Visibility, Option<Consent>), Refusal> {
    let (visibility, consent) = match tasks {
        Some(api::TenantTasks {
            visibility,
            consent,
        }) => (*visibility, consent.as_ref()),
        None => (None, None),
    };
    let visibility = match visibility {
        None | Some(api::Visibility::Owner) => Visibility::Owner,
        Some(api::Visibility::Tenant) => Visibility::Tenant,
    };
    let consent = consent
        .map(|consent| read_consent(&format!("{path}.tasks.consent"), consent))
        .transpose()?;
    Ok((visibility, consent))
}

fn read_consent(path: &str, consent: &api::Consent) -> Result<Consent, Refusal> {
    let api::Consent {
        methods,
        answered_by,
        on_decline,
        ttl,
    } = consent;
    let methods = match methods {
        None => [ELICITATION.to_owned()].into(),
        Some(methods) => read_methods(&format!("{path}.methods"), methods)?,
    };
    let on_decline = match on_decline {
        None | Some(api::OnDecline::FailTask) => OnDecline::FailTask,
        Some(api::OnDecline::RelayAnswer) => OnDecline::RelayAnswer,
    };
    let ttl_ms = match ttl {
        None => 900 * SECOND,
        Some(text) => parse::duration_ms(&format!("{path}.ttl"), text, SECOND..=7 * DAY)?,
    };
    Ok(Consent {
        methods,
        answered_by: read_answered_by(&format!("{path}.answeredBy"), answered_by.as_ref())?,
        on_decline,
        ttl_ms,
    })
}

fn read_methods(path: &str, methods: &[String]) -> Result<BTreeSet<String>, Refusal> {
    if methods.is_empty() {
        return Err(Refusal::invalid(
            path,
            "is empty, so that no question could be answered; remove `consent` for that",
        ));
    }
    parse::distinct(methods.iter().map(String::as_str), |index| {
        format!("{path}[{index}]")
    })?;
    for (index, method) in methods.iter().enumerate() {
        if !QUESTION_METHODS.contains(&method.as_str()) {
            return Err(Refusal::invalid(
                format_args!("{path}[{index}]"),
                format_args!("must be one of {}", QUESTION_METHODS.join(", ")),
            ));
        }
    }
    Ok(methods.iter().cloned().collect())
}

fn read_answered_by(path: &str, by: Option<&api::AnsweredBy>) -> Result<AnsweredBy, Refusal> {
    let Some(api::AnsweredBy { type_, principals }) = by else {
        return Ok(AnsweredBy::Owner);
    };
    let plain = match type_ {
        api::AnsweredByType::Owner => AnsweredBy::Owner,
        api::AnsweredByType::Tenant => AnsweredBy::Tenant,
        api::AnsweredByType::Principals => {
            let Some(principals) = principals.as_deref().filter(|it| !it.is_empty()) else {
                return Err(Refusal::invalid(
                    path,
                    "`type: Principals` needs `principals`, name at least one",
                ));
            };
            return Ok(AnsweredBy::Principals {
                principals: read_principals(&format!("{path}.principals"), principals)?,
            });
        }
    };
    if principals.is_some() {
        return Err(Refusal::invalid(
            format_args!("{path}.principals"),
            "is for `type: Principals` only, remove it",
        ));
    }
    Ok(plain)
}

fn read_principals(path: &str, principals: &[String]) -> Result<BTreeSet<String>, Refusal> {
    parse::at_most(path, principals.len(), MAX_PRINCIPALS)?;
    parse::distinct(principals.iter().map(String::as_str), |index| {
        format!("{path}[{index}]")
    })?;
    for (index, principal) in principals.iter().enumerate() {
        let path = format!("{path}[{index}]");
        parse::text(&path, principal, MAX_PRINCIPAL_BYTES)?;
        let name = PRINCIPAL_SOURCES
            .iter()
            .find_map(|source| principal.strip_prefix(source));
        if name.is_none_or(str::is_empty) {
            return Err(Refusal::invalid(
                &path,
                "must be qualified by its source, as key:alice, jwt:ISSUER#CLAIM or sa:NAMESPACE/NAME",
            ));
        }
    }
    Ok(principals.iter().cloned().collect())
}

fn read_limits(limits: Option<&api::TenantLimits>) -> Result<TenantLimits, Refusal> {
    let (live, rate, burst) = match limits {
        Some(api::TenantLimits {
            live_tasks,
            requests_per_second,
            burst,
        }) => (*live_tasks, *requests_per_second, *burst),
        None => (None, None, None),
    };
    let rate_path = "spec.limits.requestsPerSecond";
    Ok(TenantLimits {
        live_tasks: parse::count("spec.limits.liveTasks", live, 1000, 0..=MAX_COUNT)?,
        requests_per_second: parse::count(rate_path, rate, 200, 1..=MAX_COUNT)?,
        burst: parse::count("spec.limits.burst", burst, 400, 1..=MAX_COUNT)?,
    })
}
