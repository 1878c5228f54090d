//! The table of methods: what is built, and how a method is named in metrics.

use std::fmt;

/// A method that this gateway answers; everything else is unknown (-32601, HTTP 404).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Discover,
    ToolsList,
    ToolsCall,
    PromptsList,
    PromptsGet,
    ResourcesList,
    TemplatesList,
    ResourcesRead,
    Complete,
    Listen,
    TasksGet,
    TasksUpdate,
    TasksCancel,
}

/// Methods of the protocol that are not served; named in metrics, so that a client that asks
/// for one can be seen.
const KNOWN: [&str; 11] = [
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
    "ping",
    "resources/subscribe",
    "resources/unsubscribe",
    "tasks/list",
    "tasks/result",
];

/// Metric label of any method text: a closed set, so that no client makes a series.
pub fn label(method: &str) -> &'static str {
    if let Some(method) = Method::parse(method) {
        return method.as_str();
    }
    KNOWN
        .into_iter()
        .find(|known| *known == method)
        .unwrap_or("other")
}

// === impl Method ===

impl Method {
    pub const ALL: [Self; 13] = [
        Self::Discover,
        Self::ToolsList,
        Self::ToolsCall,
        Self::PromptsList,
        Self::PromptsGet,
        Self::ResourcesList,
        Self::TemplatesList,
        Self::ResourcesRead,
        Self::Complete,
        Self::Listen,
        Self::TasksGet,
        Self::TasksUpdate,
        Self::TasksCancel,
    ];

    /// The method of this name, when it is built.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discover => "server/discover",
            Self::ToolsList => "tools/list",
            Self::ToolsCall => "tools/call",
            Self::PromptsList => "prompts/list",
            Self::PromptsGet => "prompts/get",
            Self::ResourcesList => "resources/list",
            Self::TemplatesList => "resources/templates/list",
            Self::ResourcesRead => "resources/read",
            Self::Complete => "completion/complete",
            Self::Listen => "subscriptions/listen",
            Self::TasksGet => "tasks/get",
            Self::TasksUpdate => "tasks/update",
            Self::TasksCancel => "tasks/cancel",
        }
    }

    /// Whether it belongs to the tasks extension, and so needs its declaration.
    pub fn is_task(self) -> bool {
        match self {
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel => true,
            Self::Discover
            | Self::ToolsList
            | Self::ToolsCall
            | Self::PromptsList
            | Self::PromptsGet
            | Self::ResourcesList
            | Self::TemplatesList
            | Self::ResourcesRead
            | Self::Complete
            | Self::Listen => false,
        }
    }

    /// The member of the result that holds the items, where the method lists something.
    pub fn items(self) -> Option<&'static str> {
        match self {
            Self::ToolsList => Some("tools"),
            Self::PromptsList => Some("prompts"),
            Self::ResourcesList => Some("resources"),
            Self::TemplatesList => Some("resourceTemplates"),
            Self::Discover
            | Self::ToolsCall
            | Self::PromptsGet
            | Self::ResourcesRead
            | Self::Complete
            | Self::Listen
            | Self::TasksGet
            | Self::TasksUpdate
            | Self::TasksCancel => None,
        }
    }

    /// Whether its result may be a round of questions (`input_required`) instead.
    pub fn may_ask(self) -> bool {
        matches!(
            self,
            Self::ToolsCall | Self::PromptsGet | Self::ResourcesRead
        )
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
