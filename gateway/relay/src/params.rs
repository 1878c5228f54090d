//! The governed members of a request's params; all others stay as they came.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::envelope::Request;
use crate::json::{self, Members};
use crate::listen::Filter;
use crate::method::Method;
use crate::{
    META_CLIENT_CAPABILITIES, META_LOG_LEVEL, META_PROGRESS_TOKEN, META_PROTOCOL_VERSION,
    PROTOCOL_VERSION, TASKS_EXTENSION,
};

/// Why params are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{member} cannot be read")]
    Json {
        member: &'static str,
        source: json::Error,
    },
    /// `_meta`, or one of its two required members, is missing or of another type.
    #[error("params have no {0}")]
    MissingMeta(&'static str),
    #[error("{0} is missing or of another type")]
    Member(&'static str),
    #[error("{0} is empty or too long")]
    Bounds(&'static str),
}

/// Params of a governed request.
pub struct Params<'a> {
    pub raw: &'a RawValue,
    pub members: Members<'a>,
    pub meta: Meta<'a>,
    /// `tools/call` and `prompts/get`.
    pub name: Option<Cow<'a, str>>,
    /// `resources/read`.
    pub uri: Option<Cow<'a, str>>,
    /// `completion/complete`.
    pub reference: Option<Reference<'a>>,
    /// `tools/call`, when given.
    pub arguments: Option<&'a RawValue>,
    /// `tasks/*`.
    pub task_id: Option<Cow<'a, str>>,
    /// `tasks/update`.
    pub input_responses: Option<Members<'a>>,
    /// Lists, when given; also `""` is one.
    pub cursor: Option<Cow<'a, str>>,
    /// `subscriptions/listen`.
    pub filter: Option<Filter>,
}

/// What a completion is for.
pub enum Reference<'a> {
    Prompt {
        name: Cow<'a, str>,
        /// The member as it came.
        raw: &'a RawValue,
    },
    /// The URI of a resource, or of a template.
    Resource { uri: Cow<'a, str> },
}

/// The request's `_meta`.
pub struct Meta<'a> {
    pub raw: &'a RawValue,
    /// As the client states it; [`Meta::speaks_ours`] compares.
    pub protocol_version: Cow<'a, str>,
    pub capabilities: Capabilities<'a>,
    /// Names the progress that the client wants to be told of.
    pub progress_token: Option<&'a RawValue>,
    /// Where it is given, the client wants log messages.
    pub log_level: Option<Cow<'a, str>>,
}

/// What the client declares on this request; nothing is remembered from another.
pub struct Capabilities<'a> {
    pub raw: &'a RawValue,
    pub tasks: Declared,
    pub elicitation_form: Declared,
    pub elicitation_url: Declared,
    pub sampling: Declared,
    pub roots: Declared,
    pub(crate) extensions: Option<(&'a RawValue, Members<'a>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    Yes,
    No,
}

/// Longest task id, in bytes.
pub const MAX_TASK_ID_BYTES: usize = 256;
/// Longest name of a tool or a prompt with its prefix, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Longest URI of a resource, in bytes: it must fit into a header, in base64 at worst.
pub const MAX_URI_BYTES: usize = 8192;

const NAMES: [&str; 10] = [
    "_meta",
    "name",
    "uri",
    "ref",
    "arguments",
    "taskId",
    "inputResponses",
    "requestState",
    "cursor",
    "notifications",
];

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Json { source, .. } => source.reason(),
            Self::MissingMeta(_) => "missing_meta",
            Self::Member(_) => "bad_member",
            Self::Bounds(_) => "out_of_bounds",
        }
    }
}

// === impl Params ===

impl<'a> Params<'a> {
    /// Reads the params of a request as its method needs them.
    pub fn parse(method: Method, request: &Request<'a>) -> Result<Self, Error> {
        let raw = request.params.ok_or(Error::MissingMeta("_meta"))?;
        let members = object("params", raw)?;
        members.guard(&NAMES).map_err(json_error("params"))?;
        let meta = Meta::parse(&members)?;
        let mut params = Self {
            raw,
            members,
            meta,
            name: None,
            uri: None,
            reference: None,
            arguments: None,
            task_id: None,
            input_responses: None,
            cursor: None,
            filter: None,
        };
        match method {
            Method::Discover => {}
            Method::Listen => params.filter = Some(Filter::parse(&params.members)?),
            Method::ToolsList
            | Method::PromptsList
            | Method::ResourcesList
            | Method::TemplatesList => {
                if let Some(cursor) = params.members.get("cursor") {
                    params.cursor = Some(json::string(cursor).ok_or(Error::Member("cursor"))?);
                }
            }
            Method::PromptsGet => params.name = Some(params.text("name", MAX_NAME_BYTES)?),
            Method::ResourcesRead => params.uri = Some(params.text("uri", MAX_URI_BYTES)?),
            Method::Complete => {
                let reference = params.members.get("ref").ok_or(Error::Member("ref"))?;
                params.reference = Some(Reference::parse(reference)?);
            }
            Method::ToolsCall => {
                params.name = Some(params.text("name", MAX_NAME_BYTES)?);
                params.arguments = params.members.get("arguments");
                if params.arguments.is_some_and(|raw| !json::is_object(raw)) {
                    return Err(Error::Member("arguments"));
                }
            }
            Method::TasksGet | Method::TasksCancel => {
                params.task_id = Some(params.text("taskId", MAX_TASK_ID_BYTES)?);
            }
            Method::TasksUpdate => {
                params.task_id = Some(params.text("taskId", MAX_TASK_ID_BYTES)?);
                let responses = params.members.get("inputResponses");
                let responses = responses.ok_or(Error::Member("inputResponses"))?;
                params.input_responses = Some(object("inputResponses", responses)?);
            }
        }
        Ok(params)
    }

    /// What `Mcp-Name` must mirror, where the method has it.
    pub fn mirrored_name(&self) -> Option<&str> {
        let name = self.name.as_deref().or(self.uri.as_deref());
        name.or(self.task_id.as_deref())
    }

    /// Whether the request is one of the tasks extension, and so needs its declaration.
    pub fn needs_tasks(&self) -> bool {
        self.filter.as_ref().is_some_and(|it| !it.tasks.is_empty())
    }

    fn text(&self, name: &'static str, most: usize) -> Result<Cow<'a, str>, Error> {
        text(&self.members, name, most)
    }
}

impl fmt::Debug for Params<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Params")
            .field("members", &self.members)
            .finish_non_exhaustive()
    }
}

// === impl Reference ===

impl<'a> Reference<'a> {
    fn parse(raw: &'a RawValue) -> Result<Self, Error> {
        let members = object("ref", raw)?;
        members
            .guard(&["type", "name", "uri"])
            .map_err(json_error("ref"))?;
        match members.string("type").as_deref() {
            Some("ref/prompt") => Ok(Self::Prompt {
                name: text(&members, "name", MAX_NAME_BYTES)?,
                raw: members.get("name").ok_or(Error::Member("name"))?,
            }),
            Some("ref/resource") => Ok(Self::Resource {
                uri: text(&members, "uri", MAX_URI_BYTES)?,
            }),
            Some(_) | None => Err(Error::Member("ref")),
        }
    }
}

impl fmt::Debug for Reference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prompt { .. } => "Prompt(..)",
            Self::Resource { .. } => "Resource(..)",
        })
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    fn parse(params: &Members<'a>) -> Result<Self, Error> {
        let raw = params.get("_meta").ok_or(Error::MissingMeta("_meta"))?;
        if !json::is_object(raw) {
            return Err(Error::MissingMeta("_meta"));
        }
        let members = object("_meta", raw)?;
        members
            .guard(&[
                META_PROTOCOL_VERSION,
                META_CLIENT_CAPABILITIES,
                META_PROGRESS_TOKEN,
                META_LOG_LEVEL,
            ])
            .map_err(json_error("_meta"))?;
        let protocol_version = members
            .string(META_PROTOCOL_VERSION)
            .ok_or(Error::MissingMeta(META_PROTOCOL_VERSION))?;
        let capabilities = members
            .get(META_CLIENT_CAPABILITIES)
            .filter(|raw| json::is_object(raw))
            .ok_or(Error::MissingMeta(META_CLIENT_CAPABILITIES))?;
        Ok(Self {
            raw,
            protocol_version,
            capabilities: Capabilities::parse(capabilities)?,
            progress_token: members
                .get(META_PROGRESS_TOKEN)
                .filter(|raw| !json::is_null(raw)),
            log_level: members.string(META_LOG_LEVEL),
        })
    }

    /// Whether the request is of the revision that this gateway speaks.
    pub fn speaks_ours(&self) -> bool {
        self.protocol_version == PROTOCOL_VERSION
    }
}

impl fmt::Debug for Meta<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meta")
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

// === impl Capabilities ===

impl<'a> Capabilities<'a> {
    /// Reads `clientCapabilities`.
    pub fn parse(raw: &'a RawValue) -> Result<Self, Error> {
        const MEMBER: &str = "clientCapabilities";
        let members = object(MEMBER, raw)?;
        members
            .guard(&["extensions", "elicitation", "sampling", "roots"])
            .map_err(json_error(MEMBER))?;
        let extensions = match members.get("extensions") {
            Some(raw) => {
                let extensions = object("extensions", raw)?;
                extensions
                    .guard(&[TASKS_EXTENSION])
                    .map_err(json_error("extensions"))?;
                Some((raw, extensions))
            }
            None => None,
        };
        let tasks = extensions
            .as_ref()
            .and_then(|(_, members)| members.get(TASKS_EXTENSION));
        let (elicitation_form, elicitation_url) = elicitation(&members)?;
        Ok(Self {
            raw,
            tasks: Declared::by(tasks),
            elicitation_form,
            elicitation_url,
            sampling: Declared::by(members.get("sampling")),
            roots: Declared::by(members.get("roots")),
            extensions,
        })
    }
}

impl fmt::Debug for Capabilities<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capabilities")
            .field("tasks", &self.tasks)
            .field("elicitation_form", &self.elicitation_form)
            .field("elicitation_url", &self.elicitation_url)
            .finish_non_exhaustive()
    }
}

// === impl Declared ===

impl Declared {
    pub fn is_yes(self) -> bool {
        self == Self::Yes
    }

    /// Only an object declares: `null` or `false` is a way to say no.
    fn by(member: Option<&RawValue>) -> Self {
        match member {
            Some(raw) if json::is_object(raw) => Self::Yes,
            Some(_) | None => Self::No,
        }
    }
}

/// `elicitation: {}` alone means the form mode.
fn elicitation(capabilities: &Members<'_>) -> Result<(Declared, Declared), Error> {
    let Some(raw) = capabilities
        .get("elicitation")
        .filter(|raw| json::is_object(raw))
    else {
        return Ok((Declared::No, Declared::No));
    };
    let modes = object("elicitation", raw)?;
    modes
        .guard(&["form", "url"])
        .map_err(json_error("elicitation"))?;
    let url = Declared::by(modes.get("url"));
    let form = match modes.get("form") {
        None if !url.is_yes() => Declared::Yes,
        form => Declared::by(form),
    };
    Ok((form, url))
}

fn text<'a>(members: &Members<'a>, name: &'static str, most: usize) -> Result<Cow<'a, str>, Error> {
    let text = members.string(name).ok_or(Error::Member(name))?;
    if text.is_empty() || text.len() > most {
        return Err(Error::Bounds(name));
    }
    Ok(text)
}

fn object<'a>(member: &'static str, raw: &'a RawValue) -> Result<Members<'a>, Error> {
    if !json::is_object(raw) {
        return Err(Error::Member(member));
    }
    Members::of(raw).map_err(json_error(member))
}

fn json_error(member: &'static str) -> impl Fn(json::Error) -> Error {
    move |source| Error::Json { member, source }
}

#[cfg(test)]
mod tests;
