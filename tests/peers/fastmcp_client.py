"""The steps of the cross runs, taken by a client of FastMCP and its tasks.

    fastmcp_client.py URL KEY
"""

import asyncio
import sys
from typing import Any

import fastmcp_tasks  # noqa: F401  (adds tasks to the client)
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from steps import step


async def answer(message: str, response_type: Any, params: Any, ctx: Any) -> Any:
    return {"name": "Ann"}


async def take_steps(client: Client) -> None:
    async def listed() -> Any:
        return sorted(tool.name for tool in await client.list_tools())

    async def called() -> Any:
        return (await client.call_tool("echo", {"text": "hello"})).content[0].text

    async def prompted() -> Any:
        return (await client.get_prompt("greet", {"name": "Ann"})).messages[0].content.text

    async def read() -> Any:
        return (await client.read_resource("memo://today"))[0].text

    async def progressed() -> Any:
        seen = []

        async def notice(progress: float, total: float | None, message: str | None) -> None:
            seen.append(int(progress))

        await client.call_tool("count", {}, progress_handler=notice)
        return seen

    async def failed() -> Any:
        result = await client.call_tool("fail", {}, raise_on_error=False)
        return result.is_error and "it failed" in result.content[0].text

    async def consented() -> Any:
        return (await client.call_tool("ask", {})).content[0].text

    await step("list", listed)
    await step("call", called)
    await step("prompt", prompted)
    await step("resource", read)
    await step("progress", progressed)
    await step("error", failed)
    await step("task", consented)


async def main(url: str, key: str) -> None:
    transport = StreamableHttpTransport(url, headers={"Authorization": f"Bearer {key}"})
    async with Client(transport, elicitation_handler=answer) as client:
        await take_steps(client)


asyncio.run(main(*sys.argv[1:]))
