"""What every server of the cross runs serves, made with the official Python SDK."""

from typing import Any

from mcp.server.mcpserver import Context, MCPServer, UserMessage
from mcp.server.mcpserver.exceptions import ToolError

from serving import named_prompts, plain_tools, serve
from task_jobs import Ask, Job, Tasks, form, missing_capability


async def greets(ask: Ask) -> str:
    answers = await ask({"name": form("What is your name?", name="string")})
    return f"Hello {answers['name']['content']['name']}"


def jobs(params: Any) -> Job | None:
    return greets if params.name == "ask" else None


def main() -> None:
    server = MCPServer("cross-python", version="1", extensions=[Tasks(jobs, only_as_task=("ask",))])
    tool = plain_tools(server)

    @tool
    async def echo(text: str) -> str:
        return text

    @tool
    async def count(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        await ctx.report_progress(2, 2)
        return "counted"

    @tool
    async def fail() -> str:
        raise ToolError("it failed")

    @tool
    async def ask() -> str:
        raise missing_capability()

    @named_prompts(server)
    async def greet(name: str) -> list[UserMessage]:
        return [UserMessage(f"Greet {name}")]

    @server.resource("memo://today", mime_type="text/plain")
    async def today() -> str:
        return "nothing planned"

    serve(server.streamable_http_app())


main()
