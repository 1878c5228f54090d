//! What is measured.

use clap::ValueEnum;
use hangar_tests::envelope::{Capabilities, Envelope};
use serde_json::json;

use crate::answers::{LARGE, SMALL, TASK_LARGE, TASK_SMALL, TASK_WORKING};

/// One kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// `tools/call`, small result, by a client without the tasks extension
    CallSmall,
    /// The same by a client that would take a task
    CallSmallDeclared,
    /// `tools/call` with a result of 1 MB
    #[value(name = "call-1mb")]
    Call1mb,
    /// `tasks/get` of the caller's task that goes on: nothing is verified
    GetWorking,
    /// `tasks/get` of one that completed, small result: each needs a fresh tool digest
    GetCompletedSmall,
    /// The same with a result of 1 MB
    #[value(name = "get-completed-1mb")]
    GetCompleted1mb,
}

// === impl Case ===

impl Case {
    /// As it is given to `--only` and printed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::CallSmall => "call-small",
            Self::CallSmallDeclared => "call-small-declared",
            Self::Call1mb => "call-1mb",
            Self::GetWorking => "get-working",
            Self::GetCompletedSmall => "get-completed-small",
            Self::GetCompleted1mb => "get-completed-1mb",
        }
    }

    /// The tool whose task is asked about, if the case is about tasks.
    pub(crate) fn task_tool(self) -> Option<&'static str> {
        match self {
            Self::CallSmall | Self::CallSmallDeclared | Self::Call1mb => None,
            Self::GetWorking => Some(TASK_WORKING),
            Self::GetCompletedSmall => Some(TASK_SMALL),
            Self::GetCompleted1mb => Some(TASK_LARGE),
        }
    }

    /// The request; `task` is the id of one that [`Case::task_tool`] led to.
    pub(crate) fn request(self, task: &str) -> Envelope {
        let call = |tool| Envelope::call(tool, json!({"text": "how are sales?"}));
        match self {
            Self::CallSmall => call(SMALL).capabilities(Capabilities::None),
            Self::CallSmallDeclared => call(SMALL).capabilities(Capabilities::Tasks),
            Self::Call1mb => call(LARGE).capabilities(Capabilities::None),
            Self::GetWorking | Self::GetCompletedSmall | Self::GetCompleted1mb => {
                Envelope::get(task).capabilities(Capabilities::Tasks)
            }
        }
    }
}
