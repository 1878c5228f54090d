"""The tasks extension (SEP-2663) for clients of the official Python SDK, which has none of its own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import mcp_types as types
from mcp.client.client import Client
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from pydantic import ConfigDict, Field

PERIOD_SECONDS = 0.05
BOUND_SECONDS = 30


class Handle(types.Result):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str


class Snapshot(types.Result):
    model_config = ConfigDict(extra="allow", populate_by_name=True)
    task_id: str = Field(alias="taskId")
    status: str
    input_requests: dict[str, Any] | None = Field(default=None, alias="inputRequests")
    result: dict[str, Any] | None = None


class TaskParams(types.RequestParams):
    model_config = ConfigDict(populate_by_name=True)
    task_id: str = Field(serialization_alias="taskId")


class UpdateParams(TaskParams):
    input_responses: dict[str, Any] = Field(serialization_alias="inputResponses")


class Get(types.Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"


class Update(types.Request[UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: UpdateParams
    name_param = "taskId"


class Cancel(types.Request[TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: TaskParams
    name_param = "taskId"


class Tasks(ClientExtension):
    """Declares the extension; handles are taken as they are and polled below."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> tuple[ResultClaim, ...]:
        return (ResultClaim(result_type="task", model=Handle, resolve=self.resolve),)

    async def resolve(self, claimed: Handle, ctx: Any) -> types.CallToolResult:
        ended = await until(ctx.session, claimed.task_id, "completed")
        return types.CallToolResult.model_validate(ended.result)


async def elicit(_ctx: Any, _params: Any) -> types.ElicitResult:
    """Declares elicitation; in these steps questions come through tasks only."""
    return types.ElicitResult(action="decline")


async def until(session: Any, task_id: str, status: str) -> Snapshot:
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            now = await session.send_request(Get(params=TaskParams(task_id=task_id)), Snapshot)
            if now.status == status:
                return now
            if now.status not in ("working", "input_required"):
                raise RuntimeError(f"{now.status} instead of {status}")
            await asyncio.sleep(PERIOD_SECONDS)


@asynccontextmanager
async def connect(url: str, key: str | None) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(
            transport, extensions=[Tasks()], elicitation_callback=elicit, mode="auto"
        ) as client:
            yield client
