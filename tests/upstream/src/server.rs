//! The MCP side: what the SDK asks of a server that owns tasks.

use std::{sync::Arc, time::Duration};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
        CreateTaskResult, ElicitRequest, ElicitRequestParams, ElicitationSchema, GetTaskParams,
        GetTaskResult, Implementation, InputRequest, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, UpdateTaskParams,
    },
    service::RequestContext,
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::Value;

use crate::{
    control::Control,
    tools::{self, Crawl, Greet},
};

/// One MCP server; clones share tasks and control.
#[derive(Clone)]
pub(crate) struct Server {
    tasks: TaskManager,
    control: Arc<Control>,
}

/// Key of the one question a crawl asks.
const QUESTION: &str = "publish";

/// Hint for clients: short, because the crawls of a demo are.
const POLL_INTERVAL_MS: u64 = 200;

/// Crawls as a task: half of the work, the question, the other half.
async fn crawl_as_task(
    task: TaskContext,
    site: String,
    half: Duration,
) -> Result<CallToolResult, TaskExit> {
    work(&task, half).await?;
    let answer = task.request_input(QUESTION, question(&site)?).await?;
    work(&task, half).await?;
    Ok(text(if is_yes(&answer) {
        format!("the report of {site} is published")
    } else {
        format!("the report of {site} stays a draft")
    }))
}

async fn work(task: &TaskContext, time: Duration) -> Result<(), TaskExit> {
    tokio::select! {
        () = task.cancelled() => Err(TaskExit::Cancelled),
        () = tokio::time::sleep(time) => Ok(()),
    }
}

fn question(site: &str) -> Result<InputRequest, ErrorData> {
    let requested_schema = ElicitationSchema::builder()
        .required_bool(QUESTION)
        .build()
        .map_err(|why| ErrorData::internal_error(why, None))?;
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!("Publish the report of {site}?"),
        requested_schema,
    };
    Ok(InputRequest::Elicitation(ElicitRequest::new(params)))
}

fn is_yes(answer: &Value) -> bool {
    answer["action"] == "accept" && answer["content"][QUESTION] == true
}

fn text(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

// === impl Server ===

impl Server {
    pub(crate) fn new(tasks: TaskManager, control: Arc<Control>) -> Self {
        Self { tasks, control }
    }

    async fn crawl(&self, crawl: Crawl, as_task: bool) -> Result<CallToolResponse, ErrorData> {
        let half = crawl.half()?;
        let Crawl { site, .. } = crawl;
        if as_task {
            let options = TaskOptions::new().with_poll_interval_ms(POLL_INTERVAL_MS);
            let task = self.tasks.spawn(options, move |task| {
                Box::pin(crawl_as_task(task, site, half))
            });
            return Ok(CreateTaskResult::new(task).into());
        }
        tokio::time::sleep(half * 2).await;
        Ok(text(format!(
            "the report of {site} stays a draft: nobody could be asked"
        ))
        .into())
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_tasks()
                .build(),
        )
        .with_server_info(Implementation::new(
            "hangar-demo-upstream",
            env!("CARGO_PKG_VERSION"),
        ))
        .with_instructions("`crawl` makes a report of a site and asks before it publishes.")
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(
            self.control.contract(),
        )))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let as_task = context
            .client_capabilities()
            .is_some_and(|declared| declared.supports_tasks());
        match request.name.as_ref() {
            "greet" => {
                let Greet { name } = tools::arguments(request.arguments)?;
                Ok(text(format!("Hello, {name}!")).into())
            }
            "crawl" => {
                self.crawl(tools::arguments(request.arguments)?, as_task)
                    .await
            }
            _ => Err(ErrorData::invalid_params("unknown tool", None)),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
