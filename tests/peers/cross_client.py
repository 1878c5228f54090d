"""The steps of the cross runs, taken by a client of the official Python SDK.

    cross_client.py URL KEY
"""

import asyncio
import sys
from typing import Any

import mcp_types as types
from mcp.client.client import Client

from steps import step
from tasks import Update, UpdateParams, connect, until


async def take_steps(client: Client) -> None:
    async def listed() -> Any:
        return sorted(tool.name for tool in (await client.list_tools()).tools)

    async def called() -> Any:
        return (await client.call_tool("echo", {"text": "hello"})).content[0].text

    async def prompted() -> Any:
        return (await client.get_prompt("greet", {"name": "Ann"})).messages[0].content.text

    async def read() -> Any:
        return (await client.read_resource("memo://today")).contents[0].text

    async def progressed() -> Any:
        seen = []

        async def notice(progress: float, total: float | None, message: str | None) -> None:
            seen.append(int(progress))

        await client.call_tool("count", {}, progress_callback=notice)
        return seen

    async def failed() -> Any:
        result = await client.call_tool("fail", {})
        return result.is_error and "it failed" in result.content[0].text

    async def consented() -> Any:
        handle = await client.session.call_tool("ask", {}, allow_claimed=True)
        asked = await until(client.session, handle.task_id, "input_required")
        answers = {key: {"action": "accept", "content": {"name": "Ann"}} for key in asked.input_requests or {}}
        update = UpdateParams(task_id=handle.task_id, input_responses=answers)
        await client.session.send_request(Update(params=update), types.Result)
        ended = await until(client.session, handle.task_id, "completed")
        return types.CallToolResult.model_validate(ended.result).content[0].text

    await step("list", listed)
    await step("call", called)
    await step("prompt", prompted)
    await step("resource", read)
    await step("progress", progressed)
    await step("error", failed)
    await step("task", consented)


async def main(url: str, key: str) -> None:
    async with connect(url, key) as client:
        await take_steps(client)


asyncio.run(main(*sys.argv[1:]))
