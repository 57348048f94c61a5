"""kubectl logs through our API server to a node."""

import asyncio
import json

from node_cluster import SPDY, WEB_SOCKET, Cluster
from pykubelet.api.generated.core import ContainerState as StatedState
from pykubelet.api.generated.core import ContainerStateWaiting, ContainerStatus, Pod, PodStatus
from pykubelet.runtimes.protocol import ContainerState

LINES = "".join(f"2026-01-02T03:04:0{second}.000000000Z stdout F line {second}\n" for second in range(5))
WAITING = StatedState(waiting=ContainerStateWaiting(reason="ImagePullBackOff"))
SPEC = {"automountServiceAccountToken": False, "containers": [{"name": "main", "image": "app"}]}


async def logged(cluster: Cluster) -> Pod:
    """A pod with five lines in its log."""
    given = await cluster.run_pod()
    cluster.rig.log_path(given).write_text(LINES)
    return given


async def test_logs_apply_tail_timestamps_since_and_byte_limit(cluster: Cluster) -> None:
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
    """New lines arrive as they are written, and the exit of the container ends kubectl."""
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
    """The user sees the node's error."""
    await logged(cluster)
    done = await cluster.kubectl("logs", "web", "--previous")
    expected = 'Error from server (BadRequest): previous terminated container "main" in pod "web" not found\n'
    assert (done.code, done.err) == (1, expected)


async def test_logs_of_a_waiting_container_give_the_reason(cluster: Cluster) -> None:
    """This is the usual answer for a pod that does not start."""
    given = await cluster.run_pod()
    waiting = ContainerStatus(name="main", state=WAITING)
    cluster.rig.statuses.set_pod_status(given, PodStatus(phase="Pending", container_statuses=(waiting,)))
    done = await cluster.kubectl("logs", "web")
    words = 'container "main" in pod "web" is waiting to start: trying and failing to pull image'
    assert (done.code, done.err) == (1, f"Error from server (BadRequest): {words}\n")


async def test_logs_of_a_pod_that_the_node_does_not_know_are_not_found(cluster: Cluster) -> None:
    """The message is upstream's, not the node's."""
    given = await cluster.run_pod()
    cluster.rig.pods.delete_pod(given)
    done = await cluster.kubectl("logs", "web")
    words = "the server could not find the requested resource ( pods/log web)"
    assert (done.code, done.err) == (1, f"Error from server (NotFound): {words}\n")


async def test_server_answers_for_a_pod_without_a_node(cluster: Cluster) -> None:
    """Its log is empty, and exec is refused."""
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": SPEC}
    made = await cluster.kubectl("apply", "-f", "-", given=json.dumps(document).encode())
    assert made.code == 0, made.err
    empty = await cluster.kubectl("logs", "new")
    assert (empty.code, empty.out) == (0, b""), empty.err
    for protocol in (SPDY, WEB_SOCKET):
        refused = await cluster.kubectl("exec", "new", "--", "true", environment=protocol)
        words = "Error from server (BadRequest): pod new does not have a host assigned\n"
        assert (refused.code, refused.err) == (1, words)
