"""An MCP server made with the official Python SDK, with tasks.

The SDK leaves tasks to extensions, so this one keeps them itself: `echo` answers at once, `slow`
is a task that takes the seconds that it is told, `ask` is a task that asks for a name first.
Prints one JSON line with its URL once it listens.
"""

import asyncio
import json
import secrets
import socket
from datetime import datetime, timezone
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import Field

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = frozenset({"2026-07-28"})
TERMINAL = ("completed", "failed", "cancelled")
QUESTION = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "What is your name?",
        "requestedSchema": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    },
}


class TaskParams(types.RequestParams):
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses")


class Task:
    """One task: what the wire shows, and what makes it go on."""

    def __init__(self, tool: str, arguments: dict[str, Any]) -> None:
        self.shown: dict[str, Any] = {
            "taskId": secrets.token_urlsafe(24),
            "status": "working",
            "createdAt": now(),
            "lastUpdatedAt": now(),
            "ttlMs": 600_000,
            "pollIntervalMs": 50,
        }
        self.answers: dict[str, Any] = {}
        self.answered = asyncio.Event()
        self.work = asyncio.create_task(self.run(tool, arguments))

    async def run(self, tool: str, arguments: dict[str, Any]) -> None:
        if tool == "ask":
            self.show(status="input_required", inputRequests={"name": QUESTION})
            await self.answered.wait()
            answer = self.answers["name"]
            text = f"Hello {answer.get('content', {}).get('name')}" if answer.get("action") == "accept" else "No name"
        else:
            await asyncio.sleep(float(arguments.get("seconds", 0)))
            text = "done"
        content = [{"type": "text", "text": text}]
        self.show(status="completed", result={"resultType": "complete", "content": content, "isError": False})

    def show(self, **members: Any) -> None:
        self.shown.update(members, lastUpdatedAt=now())

    def update(self, responses: dict[str, Any]) -> None:
        outstanding = self.shown.get("inputRequests", {})
        for key in outstanding.keys() & responses.keys():
            self.answers[key] = responses[key]
        self.shown["inputRequests"] = {k: v for k, v in outstanding.items() if k not in responses}
        if not self.shown["inputRequests"]:
            del self.shown["inputRequests"]
            if outstanding:
                self.show(status="working")
                self.answered.set()

    def cancel(self) -> None:
        if self.shown["status"] not in TERMINAL:
            self.work.cancel()
            self.shown.pop("inputRequests", None)
            self.show(status="cancelled")


class Tasks(Extension):
    """The Tasks extension over the SDK's extension interface."""

    identifier = TASKS

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get, MODERN),
            MethodBinding("tasks/update", UpdateParams, self.update, MODERN),
            MethodBinding("tasks/cancel", TaskParams, self.cancel, MODERN),
        ]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        if params.name not in ("slow", "ask") or not declared(ctx):
            return await call_next(ctx)
        task = Task(params.name, params.arguments or {})
        self.tasks[task.shown["taskId"]] = task
        return {"resultType": "task", **task.shown}

    async def get(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        return {"resultType": "complete", **self.find(ctx, params).shown}

    async def update(self, ctx: Any, params: UpdateParams) -> dict[str, Any]:
        self.find(ctx, params).update(params.input_responses)
        return {"resultType": "complete"}

    async def cancel(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        self.find(ctx, params).cancel()
        return {"resultType": "complete"}

    def find(self, ctx: Any, params: TaskParams) -> Task:
        if not declared(ctx):
            raise missing_capability()
        if params.task_id not in self.tasks:
            raise MCPError(code=types.INVALID_PARAMS, message="Task not found")
        return self.tasks[params.task_id]


def declared(ctx: Any) -> bool:
    meta = (ctx.params or {}).get("_meta") or {}
    return TASKS in (meta.get(CAPABILITIES, {}).get("extensions") or {})


def missing_capability() -> MCPError:
    return MCPError(
        code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        message="Missing required client capability",
        data={"requiredCapabilities": {"extensions": {TASKS: {}}}},
    )


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def serve() -> None:
    server = MCPServer("python-peer", version="1", extensions=[Tasks()])

    @server.tool()
    async def echo(text: str) -> str:
        """Says it again."""
        return text

    @server.tool()
    async def slow(seconds: float) -> str:
        """Takes its time."""
        await asyncio.sleep(seconds)
        return "done"

    @server.tool()
    async def ask() -> str:
        """Asks for a name; only as a task."""
        raise missing_capability()

    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    print(json.dumps({"message": "listening", "mcp": url}), flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


serve()
