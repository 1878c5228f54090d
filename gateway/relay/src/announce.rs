//! What upstreams announce in `server/discover`, and what a client is told of it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::json::{self, Members};
use crate::list;
use crate::method::Method;
use crate::surface::{self, Error};
use crate::{PROTOCOL_VERSION, TASKS_EXTENSION, TasksExtension};

/// One upstream's announcement, as far as the gateway serves it.
#[derive(Debug)]
pub struct Announced<'a> {
    capabilities: Vec<(&'static str, Members<'a>)>,
    has_tasks: bool,
    instructions: Option<Cow<'a, str>>,
}

/// One announcement of those that a client is told together.
#[derive(Debug)]
pub struct Said<'a> {
    /// Name of the grant, over its instructions; none where there is one upstream only.
    pub heading: Option<&'a str>,
    pub announced: Announced<'a>,
    /// Whether a task may be born there for this client.
    pub tasks: TasksExtension,
}

/// Capabilities that are passed on. Others are of methods that are not served.
const SERVED: [&str; 5] = ["tools", "prompts", "resources", "completions", "logging"];
/// Members that promise `subscriptions/listen`: where one upstream keeps the promise, it is one.
const PROMISES: [&str; 2] = ["listChanged", "subscribe"];

/// Result of `server/discover`: the union of what these upstreams announced. `unavailable` are
/// the names of grants whose upstreams could not be asked.
pub fn discover(said: &[Said<'_>], unavailable: &[&str]) -> Box<RawValue> {
    let mut out = format!(
        r#"{{"resultType":"complete","supportedVersions":["{PROTOCOL_VERSION}"],"capabilities":{{"#
    );
    let mut separator = "";
    for name in SERVED {
        let Some(capability) = united(said, name) else {
            continue;
        };
        out.push_str(separator);
        json::quote_into(&mut out, name);
        out.push(':');
        out.push_str(&capability);
        separator = ",";
    }
    let has_tasks = said
        .iter()
        .any(|said| said.tasks == TasksExtension::Forward && said.announced.has_tasks);
    if has_tasks {
        out.push_str(separator);
        out.push_str(r#""extensions":{"#);
        json::quote_into(&mut out, TASKS_EXTENSION);
        out.push_str(":{}}");
    }
    out.push_str("},");
    if let Some(instructions) = instructions(said) {
        out.push_str(r#""instructions":"#);
        json::quote_into(&mut out, &instructions);
        out.push(',');
    }
    list::finish(out, unavailable)
}

// === impl Announced ===

impl<'a> Announced<'a> {
    /// Reads a result of `server/discover`.
    pub fn read(result: &'a RawValue) -> Result<Self, Error> {
        let members = surface::complete_or_asking(Method::Discover, result)?;
        members
            .guard(&["capabilities", "instructions"])
            .map_err(Error::Json)?;
        let all = match members.get("capabilities") {
            Some(raw) => object(raw)?,
            None => Members::default(),
        };
        all.guard(&SERVED).map_err(Error::Json)?;
        let mut capabilities = Vec::new();
        for name in SERVED {
            if let Some(raw) = all.get(name).filter(|raw| json::is_object(raw)) {
                capabilities.push((name, object(raw)?));
            }
        }
        let extensions = all.get("extensions").filter(|raw| json::is_object(raw));
        let has_tasks = match extensions {
            Some(raw) => object(raw)?.get(TASKS_EXTENSION).is_some(),
            None => false,
        };
        Ok(Self {
            capabilities,
            has_tasks,
            instructions: members.string("instructions"),
        })
    }

    /// Whether the upstream has this capability (`resources`).
    pub fn has(&self, capability: &str) -> bool {
        self.get(capability).is_some()
    }

    fn get(&self, capability: &str) -> Option<&Members<'a>> {
        let mut all = self.capabilities.iter();
        all.find(|(name, _)| *name == capability)
            .map(|(_, members)| members)
    }
}

/// One capability of all that have it; where they differ in a member, the first one's is taken, and
/// of a promise the one that is kept.
fn united(said: &[Said<'_>], capability: &str) -> Option<String> {
    let parts: Vec<_> = said
        .iter()
        .filter_map(|said| said.announced.get(capability))
        .collect();
    if parts.is_empty() {
        return None;
    }
    let kept = |name: &str| {
        let mut promised = parts.iter().filter_map(|part| part.get(name));
        promised.find(|value| PROMISES.contains(&name) && value.get() == "true")
    };
    let mut seen: Vec<&str> = Vec::new();
    let mut out = String::from("{");
    for (name, value) in parts.iter().flat_map(|part| part.iter()) {
        if seen.contains(&&**name) {
            continue;
        }
        let value = kept(name).unwrap_or(value);
        if out.len() > 1 {
            out.push(',');
        }
        json::quote_into(&mut out, name);
        out.push(':');
        out.push_str(value.get());
        seen.push(name);
    }
    out.push('}');
    Some(out)
}

fn instructions<'a>(said: &'a [Said<'_>]) -> Option<Cow<'a, str>> {
    let mut all: Option<Cow<'a, str>> = None;
    for Said {
        heading, announced, ..
    } in said
    {
        let Some(text) = announced.instructions.as_deref() else {
            continue;
        };
        let text = match heading {
            Some(heading) => Cow::Owned(format!("# {heading}\n\n{text}")),
            None => Cow::Borrowed(text),
        };
        all = Some(match all {
            Some(before) => Cow::Owned(format!("{before}\n\n{text}")),
            None => text,
        });
    }
    all
}

fn object(raw: &RawValue) -> Result<Members<'_>, Error> {
    Members::of(raw).map_err(Error::Json)
}

#[cfg(test)]
mod tests;
