//! `Mcp-Param-*`: arguments that a tool's contract asks to see in headers.
//!
//! A property of the `inputSchema` annotated `x-mcp-header: "Name"` is mirrored as
//! `Mcp-Param-Name`. The gateway compares the client's and makes the upstream's anew, both from
//! the arguments in the body.

use std::borrow::Cow;
use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use crate::headers;
use crate::json::{self, Members, Tree};

/// What is wrong with a mirrored argument or with the annotation itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("inputSchema cannot be read")]
    Schema(#[source] json::Error),
    /// A client must not use a tool with such an annotation.
    #[error("x-mcp-header annotation is not valid")]
    Annotation,
    #[error("arguments cannot be read")]
    Arguments(#[source] json::Error),
    #[error("mirrored argument is not of the annotated type")]
    Type,
    #[error("Mcp-Param header is there twice")]
    Duplicate,
    #[error("Mcp-Param header is malformed")]
    Malformed,
    #[error("Mcp-Param header differs from the arguments")]
    Mismatch,
}

/// The mirrored properties of one tool, in order of their header names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirrors(BTreeMap<String, Mirror>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    header: HeaderName,
    /// Keys from the root of the arguments.
    path: Vec<String>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    String,
    Integer,
    Boolean,
}

const ANNOTATION: &str = "x-mcp-header";
const PREFIX: &str = "mcp-param-";
/// Keywords whose value is data, not a schema.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose value is a map of schemas that are not at a property of the root.
const MAPS: [&str; 5] = [
    "$defs",
    "definitions",
    "dependentSchemas",
    "patternProperties",
    "properties",
];

// === impl Error ===

impl Error {
    /// Closed word for metrics and logs.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Schema(error) | Self::Arguments(error) => error.reason(),
            Self::Annotation => "bad_annotation",
            Self::Type => "mirror_type",
            Self::Duplicate => "header_duplicate",
            Self::Malformed => "header_malformed",
            Self::Mismatch => "header_mismatch",
        }
    }
}

// === impl Mirrors ===

impl Mirrors {
    /// Reads the annotations of a tool's contract.
    pub fn of(tool: &RawValue) -> Result<Self, Error> {
        // Nearly no tool has one: a search is cheaper than a parse. An escaped spelling of the
        // annotation holds a backslash somewhere, and is parsed.
        if !tool.get().contains(ANNOTATION) && !tool.get().contains("\\u") {
            return Ok(Self::default());
        }
        let members = Members::of(tool).map_err(Error::Schema)?;
        let mut mirrors = Self::default();
        if let Some(schema) = members.get("inputSchema") {
            let schema = Tree::parse(schema).map_err(Error::Schema)?;
            mirrors.visit(&schema, Some(&[]))?;
        }
        Ok(mirrors)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers that these arguments ask for.
    pub fn headers(
        &self,
        arguments: Option<&RawValue>,
    ) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
        let mut headers = Vec::new();
        for mirror in self.0.values() {
            if let Some(value) = mirror.value(arguments)? {
                headers.push((mirror.header.clone(), headers::encode(&value)));
            }
        }
        Ok(headers)
    }

    /// Compares the client's headers with its arguments: each mirrored argument has its header,
    /// an absent or null one has none. Other `Mcp-Param-*` are not looked at.
    pub fn check(&self, sent: &HeaderMap, arguments: Option<&RawValue>) -> Result<(), Error> {
        for mirror in self.0.values() {
            let header = headers::single(sent, &mirror.header).map_err(|()| Error::Duplicate)?;
            let header = header
                .map(|value| headers::decode(value).ok_or(Error::Malformed))
                .transpose()?;
            let value = mirror.value(arguments)?;
            let agrees = match (&header, &value) {
                (Some(header), Some(value)) => mirror.kind.equal(header, value),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if !agrees {
                return Err(Error::Mismatch);
            }
        }
        Ok(())
    }

    /// Walks a schema; `path` is None below anything but `properties`, where no annotation may be.
    fn visit(&mut self, schema: &Tree, path: Option<&[String]>) -> Result<(), Error> {
        let members = match schema {
            Tree::Object(members) => members,
            Tree::Array(schemas) => {
                return schemas
                    .iter()
                    .try_for_each(|schema| self.visit(schema, None));
            }
            _ => return Ok(()),
        };
        if let Some(annotation) = members.get(ANNOTATION) {
            let path = path.filter(|path| !path.is_empty());
            self.add(
                annotation,
                members.get("type"),
                path.ok_or(Error::Annotation)?,
            )?;
        }
        for (keyword, value) in members {
            match value {
                _ if DATA.contains(&&**keyword) || keyword == ANNOTATION => {}
                Tree::Object(schemas) if MAPS.contains(&&**keyword) => {
                    for (name, schema) in schemas {
                        let path = path.filter(|_| keyword == "properties");
                        let path = path.map(|path| [path, std::slice::from_ref(name)].concat());
                        self.visit(schema, path.as_deref())?;
                    }
                }
                other => self.visit(other, None)?,
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        annotation: &Tree,
        kind: Option<&Tree>,
        path: &[String],
    ) -> Result<(), Error> {
        let Tree::String(name) = annotation else {
            return Err(Error::Annotation);
        };
        let kind = match kind {
            Some(Tree::String(kind)) => Kind::parse(kind).ok_or(Error::Annotation)?,
            _ => return Err(Error::Annotation),
        };
        if name.is_empty() {
            return Err(Error::Annotation);
        }
        let name = format!("{PREFIX}{}", name.to_ascii_lowercase());
        // A header name is a token: this refuses all else.
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| Error::Annotation)?;
        let path = path.to_vec();
        let mirror = Mirror { header, path, kind };
        match self.0.insert(name, mirror) {
            None => Ok(()),
            Some(_) => Err(Error::Annotation),
        }
    }
}

// === impl Mirror ===

impl Mirror {
    /// The argument as header text; None where it is absent or null.
    fn value<'a>(&self, arguments: Option<&'a RawValue>) -> Result<Option<Cow<'a, str>>, Error> {
        let Some(mut value) = arguments else {
            return Ok(None);
        };
        for key in &self.path {
            if !json::is_object(value) {
                return Ok(None);
            }
            let members = Members::of(value).map_err(Error::Arguments)?;
            match members.get(key) {
                Some(member) => value = member,
                None => return Ok(None),
            }
        }
        if json::is_null(value) {
            return Ok(None);
        }
        let text = match self.kind {
            Kind::String => json::string(value),
            Kind::Integer => json::integer(value).map(|number| number.to_string().into()),
            Kind::Boolean => Some(value.get())
                .filter(|text| matches!(*text, "true" | "false"))
                .map(Cow::Borrowed),
        };
        text.map(Some).ok_or(Error::Type)
    }
}

// === impl Kind ===

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "string" => Some(Self::String),
            "integer" => Some(Self::Integer),
            "boolean" => Some(Self::Boolean),
            _ => None,
        }
    }

    /// Integers are compared as numbers: `42.0` is `42`.
    fn equal(self, header: &str, value: &str) -> bool {
        if header == value {
            return true;
        }
        let number = |text: &str| RawValue::from_string(text.to_owned()).ok();
        match self {
            Self::Integer => number(header)
                .and_then(|raw| json::integer(&raw))
                .is_some_and(|number| number.to_string() == value),
            Self::String | Self::Boolean => false,
        }
    }
}

#[cfg(test)]
mod tests;
