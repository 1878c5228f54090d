//! What every server of the cross runs serves.

use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams,
    GetTaskResult, InputRequest, JsonObject, ListPromptsResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Prompt, PromptArgument,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, Role, ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};

#[derive(Clone)]
struct Server {
    tasks: TaskManager,
}

type Context = RequestContext<RoleServer>;
type Page = Option<PaginatedRequestParams>;

const POLL_INTERVAL_MS: u64 = 50;

pub(crate) async fn run() -> Result<()> {
    let server = Server {
        tasks: TaskManager::new(),
    };
    let config = StreamableHttpServerConfig::default().with_legacy_session_mode(false);
    let mcp = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    crate::say(&json!({"message": "listening", "mcp": url}));
    axum::serve(listener, Router::new().route_service("/mcp", mcp)).await?;
    Ok(())
}

async fn ask(task: TaskContext) -> Result<CallToolResult, TaskExit> {
    let answer = task.request_input("name", question()?).await?;
    let name = answer["content"]["name"].as_str().unwrap_or("nobody");
    Ok(text(format!("Hello {name}")))
}

fn question() -> Result<InputRequest, ErrorData> {
    let schema = json!({
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    });
    let params =
        json!({"mode": "form", "message": "What is your name?", "requestedSchema": schema});
    serde_json::from_value(json!({"method": "elicitation/create", "params": params}))
        .map_err(|error| ErrorData::internal_error(error.to_string(), None))
}

fn text(words: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(words)])
}

fn tool(name: &'static str, properties: Value) -> Tool {
    let schema = [("type", json!("object")), ("properties", properties)];
    let schema: JsonObject = schema
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect();
    Tool::new(name, format!("The tool {name}."), schema)
}

// === impl Server ===

impl Server {
    async fn count(&self, context: &Context) -> CallToolResult {
        for done in [1.0, 2.0] {
            if let Some(token) = context.meta.get_progress_token() {
                let progress = ProgressNotificationParam::new(token, done).with_total(2.0);
                // A client that is gone misses it.
                let _ = context.peer.notify_progress(progress).await;
            }
        }
        text("counted")
    }

    fn ask(&self, context: &Context) -> Result<CallToolResponse, ErrorData> {
        let declared = context.client_capabilities();
        if !declared.is_some_and(|declared| declared.supports_tasks()) {
            return Err(ErrorData::invalid_params("only as a task", None));
        }
        let options = TaskOptions::new().with_poll_interval_ms(POLL_INTERVAL_MS);
        let task = self.tasks.spawn(options, |task| Box::pin(ask(task)));
        Ok(CreateTaskResult::new(task).into())
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(&self, _: Page, _: Context) -> Result<ListToolsResult, ErrorData> {
        let echo = tool("echo", json!({"text": {"type": "string"}}));
        let others = ["count", "fail", "ask"].map(|name| tool(name, json!({})));
        let all = std::iter::once(echo).chain(others).collect();
        Ok(ListToolsResult::with_all_items(all))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: Context,
    ) -> Result<CallToolResponse, ErrorData> {
        match request.name.as_ref() {
            "echo" => {
                let arguments = request.arguments.unwrap_or_default();
                let said = arguments.get("text").and_then(Value::as_str);
                Ok(text(said.unwrap_or_default()).into())
            }
            "count" => Ok(self.count(&context).await.into()),
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("it failed")]).into()),
            "ask" => self.ask(&context),
            _ => Err(ErrorData::invalid_params("unknown tool", None)),
        }
    }

    async fn list_prompts(&self, _: Page, _: Context) -> Result<ListPromptsResult, ErrorData> {
        let name = PromptArgument::new("name").with_required(true);
        let greet = Prompt::new("greet", Some("Greets."), Some(vec![name]));
        Ok(ListPromptsResult::with_all_items(vec![greet]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let arguments = serde_json::to_value(arguments).unwrap_or_default();
        let words = format!("Greet {}", arguments["name"].as_str().unwrap_or_default());
        let message = PromptMessage::new_text(Role::User, words);
        Ok(GetPromptResult::new(vec![message]).into())
    }

    async fn list_resources(&self, _: Page, _: Context) -> Result<ListResourcesResult, ErrorData> {
        let memo = Resource::new("memo://today", "today");
        Ok(ListResourcesResult::with_all_items(vec![memo]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let memo = ResourceContents::text("nothing planned", request.uri);
        Ok(ReadResourceResult::new(vec![memo]).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: Context,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks
            .update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
