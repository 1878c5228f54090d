"""One governed task with one consent, by a client made with the official Python SDK.

    consent.py URL --key KEY --tool TOOL --arguments JSON --content JSON

Calls the tool, waits for its question, accepts with the content, and prints the text of the
result. Fails where a step does not come out so.
"""

import argparse
import asyncio
import json

import mcp_types as types

from tasks import Update, UpdateParams, connect, until


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    for name in ("--key", "--tool", "--arguments", "--content"):
        parser.add_argument(name, required=True)
    args = parser.parse_args()
    content = json.loads(args.content)
    async with connect(args.url, args.key) as client:
        session = client.session
        handle = await session.call_tool(args.tool, json.loads(args.arguments), allow_claimed=True)
        asked = await until(session, handle.task_id, "input_required")
        answers = {key: {"action": "accept", "content": content} for key in asked.input_requests or {}}
        update = UpdateParams(task_id=handle.task_id, input_responses=answers)
        await session.send_request(Update(params=update), types.Result)
        ended = await until(session, handle.task_id, "completed")
        print(types.CallToolResult.model_validate(ended.result).content[0].text, flush=True)


asyncio.run(main())
