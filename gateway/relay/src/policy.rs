//! Tool rules: globs over names, deny wins.
//!
//! | allow | deny | the tool is |
//! | --- | --- | --- |
//! | matches | matches | refused |
//! | matches | does not | allowed |
//! | does not | matches | refused |
//! | does not | does not | refused |
//! | empty | anything | refused: an empty list allows nothing |
//! | anything | empty | as `allow` says |
//!
//! A tool is served when the rules of its upstream and those of the grant both allow it. In the
//! manifests an absent `allow` means `["*"]`; that default is filled in before rules come here.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobMatcher};
use hangar_wire::ToolRules;

/// Why rules cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{list}[{index}] is no glob")]
    Glob {
        list: &'static str,
        index: usize,
        #[source]
        source: globset::Error,
    },
}

/// Compiled rules.
#[derive(Clone, Debug)]
pub struct Rules {
    allow: Globs,
    deny: Globs,
}

/// Names that match one of some globs.
///
/// Each glob is matched alone and as a whole: a `GlobSet` sorts some patterns by the extension or
/// the last component of a path, and a tool name is no path.
#[derive(Clone, Debug, Default)]
struct Globs {
    any: bool,
    literals: BTreeSet<String>,
    patterns: Vec<GlobMatcher>,
}

// === impl Error ===

impl Error {
    /// Closed word for conditions and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Glob { .. } => "bad_glob",
        }
    }
}

// === impl Rules ===

impl Rules {
    pub fn compile(rules: &ToolRules) -> Result<Self, Error> {
        let ToolRules { allow, deny } = rules;
        Ok(Self {
            allow: Globs::compile("allow", allow)?,
            deny: Globs::compile("deny", deny)?,
        })
    }

    /// Whether these rules let a tool of this name through.
    pub fn allows(&self, tool: &str) -> bool {
        self.allow.matches(tool) && !self.deny.matches(tool)
    }
}

// === impl Globs ===

impl Globs {
    fn compile(list: &'static str, globs: &[String]) -> Result<Self, Error> {
        let mut compiled = Self::default();
        for (index, glob) in globs.iter().enumerate() {
            if glob == "*" {
                compiled.any = true;
            } else if !glob.contains(['*', '?', '[', ']', '{', '}', '\\']) {
                compiled.literals.insert(glob.clone());
            } else {
                let pattern = GlobBuilder::new(glob)
                    .literal_separator(false)
                    .backslash_escape(true)
                    .build()
                    .map_err(|source| Error::Glob {
                        list,
                        index,
                        source,
                    })?;
                compiled.patterns.push(pattern.compile_matcher());
            }
        }
        Ok(compiled)
    }

    fn matches(&self, tool: &str) -> bool {
        self.any
            || self.literals.contains(tool)
            || self.patterns.iter().any(|pattern| pattern.is_match(tool))
    }
}

#[cfg(test)]
mod tests;
