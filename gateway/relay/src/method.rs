//! The table of methods: what is built, and how a method is named in metrics.

use std::fmt;

/// A method that this gateway answers; everything else is unknown (-32601, HTTP 404).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Method {
    Discover,
    ToolsList,
    ToolsCall,
    TasksGet,
    TasksUpdate,
    TasksCancel,
}

/// Methods of the protocol that are not served; named in metrics, so that a client that asks
/// for one can be seen.
const KNOWN: [&str; 18] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/progress",
    "notifications/roots/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "subscriptions/listen",
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
    pub const ALL: [Self; 6] = [
        Self::Discover,
        Self::ToolsList,
        Self::ToolsCall,
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
            Self::TasksGet => "tasks/get",
            Self::TasksUpdate => "tasks/update",
            Self::TasksCancel => "tasks/cancel",
        }
    }

    /// Whether it belongs to the tasks extension, and so needs its declaration.
    pub fn is_task(self) -> bool {
        match self {
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel => true,
            Self::Discover | Self::ToolsList | Self::ToolsCall => false,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
