"""The runtime in docs/guides/write-your-own-runtime.md passes the contract suite of all runtimes."""

from pathlib import Path
from typing import Any

import pytest
from contract.test_runtime import *  # noqa: F403  the whole suite, with this file's fixtures

import whole_node
from markdown_blocks import read_blocks
from pykubelet.aio.clock import SystemClock
from pykubelet.app.runtimes import RuntimeParts
from pykubelet.runtimes.protocol import ContainerState, Runtime
from whole_node import container, is_ready, status_of

DOCUMENT = Path(__file__).parents[3] / "docs/guides/write-your-own-runtime.md"


def example() -> str:
    """The first code block of the guide."""
    return read_blocks(DOCUMENT.read_text())[0].text


@pytest.fixture
def runtime() -> Runtime:
    names: dict[str, Any] = {}
    exec(compile(example(), str(DOCUMENT), "exec"), names)
    made: Runtime = names["ProcessPerContainer"]()
    return made


@pytest.fixture
def image() -> str:
    return ""


async def test_example_runs_pods_for_a_whole_node(runtime: Runtime, tmp_path: Path) -> None:
    """One pod becomes ready, restarts when its process dies, and is deleted; another fails with its exit code."""
    async with whole_node.world(tmp_path) as made:
        made.clock, made.runtime = SystemClock(), RuntimeParts(name="example", version="1", runtime=runtime)
        async with made.running_node():
            await made.create("web", containers=[container(command=["/bin/sh", "-c"], args=["exec sleep 1000"])])
            await made.create("job", restartPolicy="Never", containers=[container(command=["/bin/sh", "-c", "exit 3"])])
            await made.create("lost", containers=[container(command=["/no/such/program"])])
            ready = await made.until("web", is_ready)
            failed = await made.until("job", lambda pod: pod.status.phase == "Failed")
            waits = await made.until("lost", lambda pod: bool(pod.status.container_statuses))
            await runtime.stop(status_of(ready).container_id.rpartition("://")[2], 0)
            again = await made.until("web", lambda pod: is_ready(pod) and status_of(pod).restart_count == 1)
            for name in ("web", "job", "lost"):
                await made.delete(name)
            for name in ("web", "job", "lost"):
                await made.until_gone(name)
        left = [one for pod in await runtime.pods() for one in pod.containers]
    assert [one for one in left if one.state is ContainerState.RUNNING] == []
    assert ready.status.pod_ip == "127.0.0.1"
    assert status_of(again).container_id != status_of(ready).container_id
    ended = status_of(failed).state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (3, "Error")
    assert status_of(waits).state.running is None


def test_example_is_short() -> None:
    """The guide promises about forty lines of code."""
    lines = [line for line in example().splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 42
