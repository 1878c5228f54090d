"""What every server of the cross runs serves, made with FastMCP and its tasks."""

from datetime import timedelta

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import InputRequiredResult

from serving import serve
from task_jobs import form

server = FastMCP("cross-fastmcp", version="1")
server.add_extension(TasksExtension())


@server.tool(output_schema=None)
async def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool(output_schema=None)
async def count(ctx: Context) -> str:
    """Tells how far it is."""
    await ctx.report_progress(1, 2)
    await ctx.report_progress(2, 2)
    return "counted"


@server.tool(output_schema=None)
async def fail() -> str:
    """Fails."""
    raise ToolError("it failed")


@server.tool(task=TaskConfig(mode="required", poll_interval=timedelta(milliseconds=50)), output_schema=None)
async def ask(ctx: Context) -> str | InputRequiredResult:
    """Asks for a name."""
    if ctx.input_responses is None:
        question = form("What is your name?", name="string")
        return InputRequiredResult.model_validate(
            {"resultType": "input_required", "inputRequests": {"name": question}}
        )
    return f"Hello {ctx.input_responses['name'].content['name']}"


@server.prompt
async def greet(name: str) -> str:
    """Greets."""
    return f"Greet {name}"


@server.resource("memo://today", mime_type="text/plain")
async def today() -> str:
    """What is planned."""
    return "nothing planned"


serve(server.http_app(path="/mcp"))
