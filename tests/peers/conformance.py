"""The server that the official conformance suite wants, made with the official Python SDK.

Names and texts are the suite's: each scenario says which tool, resource or prompt it calls and what
that must answer.
"""

import asyncio
import base64
import json
from typing import Annotated, Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer, UserMessage
from mcp.shared.exceptions import MCPError
from pydantic import Field

from conformance_questions import add_questions
from serving import named_prompts, plain_tools, serve
from task_jobs import Ask, Job, Tasks, form, missing_capability

# One red pixel, and a sound of two silent samples.
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8Dw"
    "HwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQIAAAAAAA=="

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_2020_12 = {
    "$schema": DIALECT,
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def text(words: str) -> types.TextContent:
    return types.TextContent(type="text", text=words)


def image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, words: str) -> types.EmbeddedResource:
    resource = types.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return types.EmbeddedResource(type="resource", resource=resource)


def jobs(params: Any) -> Job | None:
    """The tools that are tasks; see `tasks-*` of the suite."""
    arguments = params.arguments or {}

    async def slow_compute(_: Ask) -> str:
        await asyncio.sleep(float(arguments.get("seconds", 0)))
        return f"computed {arguments.get('label', '')}"

    async def failing_job(_: Ask) -> str:
        await asyncio.sleep(1)
        raise RuntimeError("the job failed")

    async def protocol_error_job(_: Ask) -> str:
        raise MCPError(code=types.INTERNAL_ERROR, message="internal failure")

    async def confirm_delete(ask: Ask) -> str:
        await ask({"confirm": form("Delete it?", confirm="boolean")})
        return f"deleted {arguments.get('filename')}"

    async def multi_input(ask: Ask) -> str:
        await ask({"first": form("First?", name="string"), "second": form("Second?", name="string")})
        return "both"

    async def greets(_: Ask) -> str:
        return f"Hello, {params.input_responses['user_name'].content['name']}!"

    asked_before = {"test_tool_with_task": greets} if params.input_responses else {}
    known: dict[str, Job] = {
        job.__name__: job for job in (slow_compute, failing_job, protocol_error_job, confirm_delete, multi_input)
    }
    return (known | asked_before).get(params.name)


def add_task_tools(server: MCPServer) -> None:
    tool = plain_tools(server)

    @tool
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    @tool
    async def slow_compute(seconds: float, label: str = "") -> str:
        await asyncio.sleep(seconds)
        return f"computed {label}"

    @tool
    async def failing_job() -> str:
        raise missing_capability()

    @tool
    async def protocol_error_job() -> str:
        raise MCPError(code=types.INTERNAL_ERROR, message="internal failure")

    @tool
    async def confirm_delete(filename: str) -> str:
        return f"kept {filename}"

    @tool
    async def multi_input() -> str:
        return "neither"

    @tool
    async def test_tool_with_task() -> types.InputRequiredResult:
        """The first round; the second one is a task."""
        question = form("What is your name?", name="string")
        return types.InputRequiredResult.model_validate(
            {"resultType": "input_required", "inputRequests": {"user_name": question}}
        )


def add_content(server: MCPServer) -> None:
    tool = plain_tools(server)

    @tool
    async def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @tool
    async def test_image_content() -> types.ImageContent:
        return image()

    @tool
    async def test_audio_content() -> types.AudioContent:
        return types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")

    @tool
    async def test_embedded_resource() -> types.EmbeddedResource:
        return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")

    @tool
    async def test_multiple_content_types() -> list[types.ContentBlock]:
        data = json.dumps({"test": "data", "value": 123})
        resource = embedded("test://mixed-content-resource", "application/json", data)
        return [text("Multiple content types test:"), image(), resource]

    @tool
    async def test_error_handling() -> str:
        raise ValueError("This tool intentionally returns an error for testing")

    @tool
    async def test_x_mcp_header(
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "",
    ) -> str:
        return f"region {region}"

    @tool
    async def json_schema_2020_12_tool(ctx: Context) -> str:
        return "accepted"

    # The SDK derives schemas from signatures; this one is the suite's, word for word.
    server._tool_manager.get_tool("json_schema_2020_12_tool").parameters = SCHEMA_2020_12


def add_notifying(server: MCPServer) -> None:
    tool = plain_tools(server)

    @tool
    async def test_tool_with_logging(ctx: Context) -> str:
        for step in ("started", "processing", "completed"):
            await ctx.info(f"Tool {step}")
        return "logged"

    @tool
    async def test_logging_tool(ctx: Context) -> str:
        await ctx.info("only for those who asked")
        return "logged"

    @tool
    async def test_tool_with_progress(ctx: Context) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100)
            await asyncio.sleep(0.05)
        return "progressed"

    @tool
    async def test_trigger_tool_change(ctx: Context) -> str:
        await ctx.notify_tools_changed()
        return "changed"

    @tool
    async def test_trigger_prompt_change(ctx: Context) -> str:
        await ctx.notify_prompts_changed()
        return "changed"

    @tool
    async def test_missing_capability(ctx: Context) -> str:
        if ctx.client_capabilities is None or ctx.client_capabilities.sampling is None:
            raise missing_capability(sampling={})
        return "sampling is declared"


def add_resources(server: MCPServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    async def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    async def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://watched-resource", mime_type="text/plain")
    async def watched() -> str:
        return "watched"

    @server.resource("test://template/{id}/data", mime_type="application/json")
    async def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: MCPServer) -> None:
    prompt = named_prompts(server)

    @prompt
    async def test_simple_prompt() -> list[UserMessage]:
        return [UserMessage("This is a simple prompt for testing.")]

    @prompt
    async def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        return [UserMessage(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'")]

    @prompt
    async def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @prompt
    async def test_prompt_with_image() -> list[UserMessage]:
        return [UserMessage(image()), UserMessage("Please analyze the image above.")]

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
        return types.Completion(values=[f"{argument.value}ris"], total=1, has_more=False)


def main() -> None:
    only_as_task = ("failing_job", "test_tool_with_task")
    server = MCPServer("conformance", version="1", extensions=[Tasks(jobs, only_as_task)])
    for add in (add_content, add_notifying, add_task_tools, add_resources, add_prompts, add_questions):
        add(server)
    serve(server.streamable_http_app())


main()
