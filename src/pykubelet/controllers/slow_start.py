"""Do something many times, carefully: 1, 2, 4, 8 ... at once, until a batch fails.

So that a quota or a broken webhook is hit once, not five hundred times.
Upstream: slowStartBatch in pkg/controller/replicaset/replica_set.go.
"""

import asyncio
from collections.abc import Awaitable, Callable


async def slow_start_batch(
    count: int, call: Callable[[], Awaitable[None]], *, first_batch: int = 1
) -> tuple[int, Exception | None]:
    """Call `call` up to `count` times; how many succeeded, and one of the errors that made it stop."""
    left, successes = count, 0
    size = min(left, first_batch)
    while size > 0:
        results = await asyncio.gather(*(call() for _ in range(size)), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        successes += size - len(errors)
        for error in errors:
            if not isinstance(error, Exception):
                raise error
        if errors:
            return successes, next(error for error in errors if isinstance(error, Exception))
        left -= size
        size = min(2 * size, left)
    return successes, None
