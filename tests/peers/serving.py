"""What the Python servers of the suites have in common: how they register things, and how they listen."""

import json
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def plain_tools(server: MCPServer) -> Decorator:
    """Registers tools whose result is content alone, described by their own name."""
    return lambda tool: server.tool(description=words(tool), structured_output=False)(tool)


def named_prompts(server: MCPServer) -> Decorator:
    """Registers prompts, described by their own name."""
    return lambda prompt: server.prompt(description=words(prompt))(prompt)


def words(function: Callable[..., Any]) -> str:
    return function.__name__.replace("_", " ").capitalize() + "."


def serve(app: Any) -> None:
    """On a free port of loopback, which one JSON line tells."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    print(json.dumps({"message": "listening", "mcp": url}), flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
