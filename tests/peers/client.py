"""An MCP client made with the official Python SDK that takes each step of a task's life.

    client.py URL [--key KEY]

Prints one JSON line per step with what came back, and fails at the first step that does not
come out as the protocol says. Judging the values is left to the test that runs it.
"""

import argparse
import asyncio
import json
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


def step(name: str, **values: Any) -> None:
    print(json.dumps({"step": name, **values}), flush=True)


def text_of(result: Any) -> str:
    return types.CallToolResult.model_validate(result).content[0].text


async def start(session: Any, tool: str, arguments: dict[str, Any]) -> str:
    handle = await session.call_tool(tool, arguments, allow_claimed=True)
    step(f"{tool} started", status=handle.status)
    return handle.task_id


async def take_steps(client: Client) -> None:
    session = client.session
    tools = await client.list_tools()
    step("listed", tools=sorted(tool.name for tool in tools.tools))
    step("called", text=text_of(await client.call_tool("echo", {"text": "hello"})))

    task = await start(session, "slow", {"seconds": 0.2})
    step("completed", text=text_of((await until(session, task, "completed")).result))

    task = await start(session, "ask", {})
    asked = await until(session, task, "input_required")
    step("asked", keys=sorted(asked.input_requests or {}))
    answers = {key: {"action": "accept", "content": {"name": "Ann"}} for key in asked.input_requests or {}}
    await session.send_request(Update(params=UpdateParams(task_id=task, input_responses=answers)), types.Result)
    step("answered", text=text_of((await until(session, task, "completed")).result))

    task = await start(session, "slow", {"seconds": 600})
    await session.send_request(Cancel(params=TaskParams(task_id=task)), types.Result)
    step("cancelled", status=(await until(session, task, "cancelled")).status)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--key")
    args = parser.parse_args()
    headers = {"Authorization": f"Bearer {args.key}"} if args.key else {}
    async with create_mcp_http_client(headers=headers) as http:
        transport = streamable_http_client(args.url, http_client=http)
        async with Client(
            transport, extensions=[Tasks()], elicitation_callback=elicit, mode="auto"
        ) as client:
            await take_steps(client)


asyncio.run(main())
