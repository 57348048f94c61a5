"""Reads large bodies beside the loop, so that nobody else waits for them.

A megabyte of JSON takes 50 ms to read and to check field by field, a megabyte of YAML ten times that. Reading asks for
nothing but the body and the kind; what depends on the state of the server is decided later, on the loop.
"""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from pykubelet.apiserver.call import Call

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Below it, a thread costs more than it saves: 3 ms of JSON.
LARGE_BYTES = 64 * 1024


async def read_aside(call: Call, read: Callable[[*Ts], T], *args: *Ts) -> T:
    """What `read` makes of the call's body, in a thread if that is large; it must change nothing but the call."""
    return await asyncio.to_thread(read, *args) if len(call.body) > LARGE_BYTES else read(*args)
