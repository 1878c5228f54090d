"""One JSON line per step of a cross run: what came back, or how it failed."""

import json
from collections.abc import Awaitable, Callable
from typing import Any


async def step(name: str, take: Callable[[], Awaitable[Any]]) -> None:
    try:
        said = {"step": name, "value": await take()}
    except Exception as error:  # Whatever an SDK raises is what the step came to.
        said = {"step": name, "failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(said), flush=True)
