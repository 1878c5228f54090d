"""What asks its client before it answers: the `input-required-result-*` scenarios of the suite.

A round that needs an answer returns the questions; the client calls again with the answers. The SDK
seals `request_state`, so one that was tampered with never arrives here.
"""

from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer, UserMessage

from serving import named_prompts, plain_tools
from task_jobs import form

NAME = form("What is your name?", name="string")


def sampling(prompt: str, tokens: int) -> dict[str, Any]:
    message = {"role": "user", "content": {"type": "text", "text": prompt}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}}


ROOTS = {"method": "roots/list", "params": {}}


def asks(state: str | None = None, **questions: dict[str, Any]) -> types.InputRequiredResult:
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": questions}
    if state is not None:
        result["requestState"] = state
    return types.InputRequiredResult.model_validate(result)


def answer(ctx: Context, key: str, member: str) -> Any:
    """What was accepted with under this key; None where it is not there or of another shape."""
    response = (ctx.input_responses or {}).get(key)
    content = getattr(response, "content", None)
    return content.get(member) if isinstance(content, dict) else None


def add_questions(server: MCPServer) -> None:
    tool = plain_tools(server)

    @tool
    async def test_input_required_result_elicitation(ctx: Context) -> str | types.InputRequiredResult:
        name = answer(ctx, "user_name", "name")
        return asks(user_name=NAME) if name is None else f"Hello, {name}!"

    @tool
    async def test_input_required_result_sampling(ctx: Context) -> str | types.InputRequiredResult:
        said = (ctx.input_responses or {}).get("capital_question")
        if said is None:
            return asks(capital_question=sampling("What is the capital of France?", 100))
        return f"The model said: {said.content.text}"

    @tool
    async def test_input_required_result_list_roots(ctx: Context) -> str | types.InputRequiredResult:
        listed = (ctx.input_responses or {}).get("client_roots")
        if listed is None:
            return asks(client_roots=ROOTS)
        return "Roots: " + ", ".join(str(root.uri) for root in listed.roots)

    @tool
    async def test_input_required_result_request_state(ctx: Context) -> str | types.InputRequiredResult:
        if ctx.request_state != "asked" or answer(ctx, "confirm", "ok") is None:
            return asks("asked", confirm=form("Please confirm", ok="boolean"))
        return "state-ok"

    @tool
    async def test_input_required_result_tampered_state(ctx: Context) -> str | types.InputRequiredResult:
        if ctx.request_state != "asked":
            return asks("asked", confirm=form("Please confirm", ok="boolean"))
        return "state-ok"

    @tool
    async def test_input_required_result_multiple_inputs(ctx: Context) -> str | types.InputRequiredResult:
        if ctx.request_state != "asked" or len(ctx.input_responses or {}) < 3:
            greeting = sampling("Generate a greeting", 50)
            return asks("asked", user_name=NAME, greeting=greeting, client_roots=ROOTS)
        return f"Hello, {answer(ctx, 'user_name', 'name')}!"

    @tool
    async def test_input_required_result_multi_round(ctx: Context) -> str | types.InputRequiredResult:
        match ctx.request_state:
            case None:
                return asks("first", step1=form("Step 1: What is your name?", name="string"))
            case "first":
                name = answer(ctx, "step1", "name")
                return asks(f"second {name}", step2=form("Step 2: What is your favorite color?", color="string"))
            case state:
                return f"{state.removeprefix('second ')} likes {answer(ctx, 'step2', 'color')}"

    @tool
    async def test_input_required_result_capabilities(ctx: Context) -> str | types.InputRequiredResult:
        declared = ctx.client_capabilities
        questions = {}
        if declared is not None and declared.elicitation is not None:
            questions["user_name"] = NAME
        if declared is not None and declared.sampling is not None:
            questions["greeting"] = sampling("Generate a greeting", 50)
        return asks(**questions) if questions else "there is nothing that could be asked"

    @tool
    async def test_streaming_elicitation(ctx: Context) -> str | types.InputRequiredResult:
        name = answer(ctx, "user_name", "name")
        return asks(user_name=NAME) if name is None else f"Hello, {name}!"

    @named_prompts(server)
    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | types.InputRequiredResult:
        context = answer(ctx, "user_context", "context")
        if context is None:
            return asks(user_context=form("What context should the prompt use?", context="string"))
        return [UserMessage(f"In the context of {context}")]
