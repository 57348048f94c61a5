"""A program that runs containers as described in JSON on its command line, until it is killed.

It can switch to an ordinary user first.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from ordinary_user import become_ordinary
from process_lab import Lab, Ward, make_runtime
from pykubelet.api.generated.core import SecurityContext
from pykubelet.runtimes.process.runtime import ProcessRuntime
from pykubelet.runtimes.protocol import Mount, RuntimeFailure


async def main(order: dict[str, Any]) -> None:
    async with make_runtime(Path(order["root"]), order.get("way")) as runtime:
        lab = Lab(runtime, Path(order["logs"]))
        for wanted in order["containers"]:
            try:
                ward = await start(lab, **wanted)
            except RuntimeFailure as failure:
                tell(failure=failure.message, reason=failure.reason)
        if "run" in order:
            outcome = await runtime.run(ward.id, order["run"], timeout_seconds=5, limit_bytes=1000)
            tell(exit_code=outcome.exit_code, output=outcome.output.decode())
            await runtime.stop(ward.id, 0)
        while order.get("endless"):
            await start(lab, ["sleep", "4799"])
        if order.get("until_ended"):
            await tell_ends(runtime)
            return
        tell(ready=True)
        await asyncio.Event().wait()


async def start(
    lab: Lab,
    command: list[str],
    mounts: list[dict[str, Any]] | None = None,
    run_as_user: int | None = None,
    *,
    is_started: bool = True,
    **fields: Any,
) -> Ward:
    """Create a container, start it if `is_started`, and print its ids and log path."""
    context = SecurityContext(run_as_user=run_as_user)
    ward = await lab.create(
        *command, mounts=[Mount(**mount) for mount in mounts or ()], security_context=context, **fields
    )
    if is_started:
        await lab.runtime.start(ward.id)
    tell(id=ward.id, uid=ward.pod.metadata.uid, log_path=ward.request.log_path)
    return ward


async def tell_ends(runtime: ProcessRuntime) -> None:
    """Wait until all containers have ended, and print their exit codes."""
    while any(one.finished_at is None for pod in await runtime.pods() for one in pod.containers):
        await asyncio.sleep(0.02)
    for pod in await runtime.pods():
        tell(ended={one.id: one.exit_code for one in pod.containers})


def tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201  its output for the test


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    if "uid" in order:
        become_ordinary(order["uid"])
    asyncio.run(main(order))
