"""Tasks for servers of the official Python SDK, over its extension interface.

The SDK leaves tasks to extensions. A job is a coroutine function over an `Ask`; `Tasks` turns the
tools that a server names into tasks that run one, for clients that declare the extension.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import datetime, timezone
from typing import Any

import mcp_types as types
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from pydantic import Field

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MODERN = frozenset({"2026-07-28"})
TERMINAL = ("completed", "failed", "cancelled")

Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
Job = Callable[[Ask], Awaitable[str]]
# What a call of this tool with these parameters does as a task; None: it is no task.
Jobs = Callable[[Any], Job | None]


class TaskParams(types.RequestParams):
    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(alias="inputResponses")


def form(message: str, **properties: str) -> dict[str, Any]:
    """One elicitation that asks for properties of these types."""
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def declared(ctx: Any) -> bool:
    meta = (ctx.params or {}).get("_meta") or {}
    return TASKS in (meta.get(CAPABILITIES, {}).get("extensions") or {})


def missing_capability(**required: Any) -> MCPError:
    return MCPError(
        code=types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        message="Missing required client capability",
        data={"requiredCapabilities": required or {"extensions": {TASKS: {}}}},
    )


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def text_result(text: str, is_error: bool = False) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": is_error}


class Task:
    """One task: what the wire shows, and the answers that its job waits for."""

    def __init__(self, job: Job) -> None:
        self.shown: dict[str, Any] = {
            "taskId": secrets.token_urlsafe(24),
            "status": "working",
            "createdAt": now(),
            "lastUpdatedAt": now(),
            "ttlMs": 600_000,
            "pollIntervalMs": 50,
        }
        self.waiting: dict[str, asyncio.Future[Any]] = {}
        self.work = asyncio.create_task(self.run(job))

    async def run(self, job: Job) -> None:
        try:
            text = await job(self.ask)
        except MCPError as error:
            self.show(status="failed", error={"code": error.error.code, "message": error.error.message})
        except RuntimeError as error:
            self.show(status="completed", result=text_result(str(error), is_error=True))
        else:
            self.show(status="completed", result=text_result(text))

    async def ask(self, questions: dict[str, Any]) -> dict[str, Any]:
        """Keys are unique over the life of all tasks, so that no answer fits another question."""
        prefix = self.shown["taskId"][:8]
        loop = asyncio.get_running_loop()
        self.waiting = {f"{prefix}-{name}": loop.create_future() for name in questions}
        outstanding = {f"{prefix}-{name}": question for name, question in questions.items()}
        self.show(status="input_required", inputRequests=outstanding)
        waiting = dict(self.waiting)
        return {name: await waiting[f"{prefix}-{name}"] for name in questions}

    def show(self, **members: Any) -> None:
        self.shown.update(members, lastUpdatedAt=now())

    def update(self, responses: dict[str, Any]) -> None:
        for key in self.waiting.keys() & responses.keys():
            self.waiting.pop(key).set_result(responses[key])
            outstanding = self.shown["inputRequests"]
            self.shown["inputRequests"] = {name: value for name, value in outstanding.items() if name != key}
        if self.shown["status"] == "input_required" and not self.waiting:
            del self.shown["inputRequests"]
            self.show(status="working")

    def cancel(self) -> None:
        if self.shown["status"] not in TERMINAL:
            self.work.cancel()
            self.waiting = {}
            self.shown.pop("inputRequests", None)
            self.show(status="cancelled")


class Tasks(Extension):
    """The Tasks extension."""

    identifier = TASKS

    def __init__(self, jobs: Jobs, only_as_task: tuple[str, ...] = ()) -> None:
        self.jobs = jobs
        self.only_as_task = only_as_task
        self.tasks: dict[str, Task] = {}

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("tasks/get", TaskParams, self.get, MODERN),
            MethodBinding("tasks/update", UpdateParams, self.update, MODERN),
            MethodBinding("tasks/cancel", TaskParams, self.cancel, MODERN),
        ]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        if not declared(ctx):
            if params.name in self.only_as_task:
                raise missing_capability()
            return await call_next(ctx)
        job = self.jobs(params)
        if job is None:
            return await call_next(ctx)
        task = Task(job)
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
        # The SDK compares this header for its own methods only.
        named = ctx.request.headers.get(MCP_NAME_HEADER) if ctx.request is not None else None
        if named is not None and decode_header_value(named) != params.task_id:
            raise MCPError(code=types.HEADER_MISMATCH, message="Mcp-Name does not name the task")
        if params.task_id not in self.tasks:
            raise MCPError(code=types.INVALID_PARAMS, message="Task not found")
        return self.tasks[params.task_id]
