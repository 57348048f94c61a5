"""kubectl logs through our API server to a node."""

import asyncio

from node_cluster import Cluster
from pykubelet.api.generated.core import Pod
from pykubelet.runtime.protocol import ContainerState

LINES = "".join(f"2026-01-02T03:04:0{second}.000000000Z stdout F line {second}\n" for second in range(5))


async def logged(cluster: Cluster) -> Pod:
    """A pod with five lines in its log."""
    given = await cluster.run_pod()
    cluster.rig.log_path(given).write_text(LINES)
    return given


async def test_logs_shows_what_is_asked_for(cluster: Cluster) -> None:
    """All of it, its end, with times, since a time, and no more than so many bytes."""
    await logged(cluster)
    shown = {
        (): b"line 0\nline 1\nline 2\nline 3\nline 4\n",
        ("--tail=2",): b"line 3\nline 4\n",
        ("--tail=1", "--timestamps"): b"2026-01-02T03:04:04.000000000Z line 4\n",
        ("--since-time=2026-01-02T03:04:03Z",): b"line 3\nline 4\n",
        ("--limit-bytes=9",): b"line 0\nli",
        ("--since=1s",): b"",
    }
    for options, expected in shown.items():
        done = await cluster.kubectl("logs", "web", *options)
        assert (done.code, done.out) == (0, expected), done.err


async def test_logs_follows_until_the_container_ends(cluster: Cluster) -> None:
    """New lines come as they are written, and the end of the container ends kubectl."""
    given = await logged(cluster)
    process = await cluster.start("logs", "-f", "--tail=1", "web")
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 10) == b"line 4\n"
    with cluster.rig.log_path(given).open("a") as log:
        log.write("2026-01-02T03:04:05.000000000Z stderr F line 5\n")
        log.flush()
        assert await asyncio.wait_for(process.stdout.readline(), 10) == b"line 5\n"
        log.write("2026-01-02T03:04:06.000000000Z stdout F last words\n")
    cluster.rig.show(given, state=ContainerState.EXITED)
    out, _ = await asyncio.wait_for(process.communicate(), 10)
    assert (process.returncode, out) == (0, b"last words\n")


async def test_logs_of_a_container_that_never_ran_before_are_refused(cluster: Cluster) -> None:
    """The node's code reaches kubectl."""
    await logged(cluster)
    done = await cluster.kubectl("logs", "web", "--previous")
    assert done.code == 1
    assert "BadRequest" in done.err
