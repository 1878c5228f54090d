"""An MCP client made with the official Python SDK that takes each step of a task's life.

    client.py URL [--key KEY]

Prints one JSON line per step with what came back, and fails at the first step that does not
come out as the protocol says. Judging the values is left to the test that runs it.
"""

import argparse
import asyncio
import json
from typing import Any

import mcp_types as types
from mcp.client.client import Client

from tasks import Cancel, TaskParams, Update, UpdateParams, connect, until


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
    async with connect(args.url, args.key) as client:
        await take_steps(client)


asyncio.run(main())
