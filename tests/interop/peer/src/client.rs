//! The steps of the cross runs. Values are read as JSON, as they would be on the wire.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig,
    GetPromptRequestParams, GetTaskParams, Implementation, JsonObject, ProgressNotificationParam,
    ProtocolVersion, ReadResourceRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use serde::Serialize;
use serde_json::{Value, json};

/// Remembers the progress that it was told of.
#[derive(Clone, Default)]
struct Handler {
    progress: Arc<Mutex<Vec<u64>>>,
}

type Client = RunningService<RoleClient, Handler>;

const PERIOD: Duration = Duration::from_millis(50);
const POLLS: usize = 200;

pub(crate) async fn run(url: String, key: String) -> Result<()> {
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(key);
    let lifecycle = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    let transport = StreamableHttpClientTransport::from_config(config);
    let client = Handler::default()
        .serve_with_lifecycle(transport, lifecycle)
        .await?;
    step("list", list(&client).await);
    step("call", call(&client).await);
    step("prompt", prompt(&client).await);
    step("resource", resource(&client).await);
    step("progress", progress(&client).await);
    step("error", error(&client).await);
    step("task", task(&client).await);
    Ok(())
}

fn step(name: &str, came_to: Result<Value>) {
    crate::say(&match came_to {
        Ok(value) => json!({"step": name, "value": value}),
        Err(error) => json!({"step": name, "failed": format!("{error:#}")}),
    });
}

async fn list(client: &Client) -> Result<Value> {
    let tools = client.list_all_tools().await?;
    let mut names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    names.sort_unstable();
    Ok(json!(names))
}

async fn call(client: &Client) -> Result<Value> {
    let arguments = object(json!({"text": "hello"}));
    let result = tool(client, "echo", arguments).await?;
    Ok(result["content"][0]["text"].clone())
}

async fn prompt(client: &Client) -> Result<Value> {
    let arguments = object(json!({"name": "Ann"}));
    let params = GetPromptRequestParams::new("greet").with_arguments(arguments);
    let got = as_json(&client.get_prompt(params).await?)?;
    Ok(got["messages"][0]["content"]["text"].clone())
}

async fn resource(client: &Client) -> Result<Value> {
    let params = ReadResourceRequestParams::new("memo://today");
    let read = as_json(&client.read_resource(params).await?)?;
    Ok(read["contents"][0]["text"].clone())
}

/// The SDK sends a progress token of its own with every request. It runs a handler for each
/// notification in a task of its own, so neither their order nor that they ran before the reply is
/// there is the server's doing.
async fn progress(client: &Client) -> Result<Value> {
    tool(client, "count", JsonObject::new()).await?;
    let seen = || {
        let seen = client.service().progress.lock();
        let mut seen = seen.unwrap_or_else(PoisonError::into_inner).clone();
        seen.sort_unstable();
        seen
    };
    for _ in 0..POLLS {
        if seen().len() == 2 {
            break;
        }
        tokio::time::sleep(PERIOD).await;
    }
    Ok(json!(seen()))
}

async fn error(client: &Client) -> Result<Value> {
    let result = tool(client, "fail", JsonObject::new()).await?;
    let said = result["content"][0]["text"].as_str().unwrap_or_default();
    Ok(json!(
        result["isError"] == true && said.contains("it failed")
    ))
}

async fn task(client: &Client) -> Result<Value> {
    let params = CallToolRequestParams::new("ask");
    let CallToolResponse::Task(created) = client.call_tool_once(params).await? else {
        bail!("not a task");
    };
    let task_id = created.task.task_id;
    for _ in 0..POLLS {
        let params = GetTaskParams::new(task_id.clone());
        let got = as_json(&client.get_task(params).await?)?;
        match got["status"].as_str() {
            Some("input_required") => {
                let keys = got["inputRequests"].as_object().context("no questions")?;
                let answer = json!({"action": "accept", "content": {"name": "Ann"}});
                let answers: Value = keys.keys().map(|key| (key, answer.clone())).collect();
                let update = json!({"taskId": task_id, "inputResponses": answers});
                let update: UpdateTaskParams = serde_json::from_value(update)?;
                client.update_task(update).await?;
            }
            Some("working") => tokio::time::sleep(PERIOD).await,
            Some("completed") => return Ok(got["result"]["content"][0]["text"].clone()),
            _ => bail!("came to {got}"),
        }
    }
    bail!("did not end")
}

async fn tool(client: &Client, name: &'static str, arguments: JsonObject) -> Result<Value> {
    let params = CallToolRequestParams::new(name).with_arguments(arguments);
    as_json(&client.call_tool(params).await?)
}

fn as_json(value: &impl Serialize) -> Result<Value> {
    Ok(serde_json::to_value(value)?)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

// === impl Handler ===

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_elicitation()
            .enable_tasks()
            .build();
        ClientConfig::new(capabilities, Implementation::new("cross-rust", "1"))
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let mut seen = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        seen.push(params.progress as u64);
    }
}
