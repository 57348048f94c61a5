"""A node whose API server is unreachable, at startup or later: pods keep running, and statuses are sent afterwards."""

import asyncio
import json
from pathlib import Path

from client_faults import Outage
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun
from whole_node import container, is_ready, status_of, world


async def test_static_pod_starts_without_an_api_server_and_is_shown_later(tmp_path: Path) -> None:
    """The API server may be a static pod itself, so the pod starts without it.

    Its mirror pod is created when the server is reachable.
    """
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    body = {"metadata": {"name": "web"}, "spec": {"containers": [container()]}}
    (manifests / "web.json").write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **body}))
    async with world(tmp_path) as outside:
        down = Outage(outside.api, is_down=True)
        async with outside.starting_node(client=down, manifests=(manifests,)):
            await asyncio.sleep(1)
            (runs,) = await outside.sim.pods()
            down.end()
            mirror = await outside.until("web-node-1", is_ready, within_seconds=60)
            assert status_of(mirror).restart_count == 0
            assert [one.id for one in (await outside.sim.pods())[0].containers] == [runs.containers[0].id]


async def test_pods_are_restarted_while_the_api_server_is_unreachable(tmp_path: Path) -> None:
    """A container that crashes during the outage is restarted; statuses are sent when the server is back."""
    scripts = {"once": Behaviour(runs=(ContainerRun(seconds=30, exit_code=6),))}
    async with world(tmp_path, scripts=scripts) as outside:
        server = Outage(outside.api)
        async with outside.starting_node(client=server):
            once = await outside.create("once", restartPolicy="Never", containers=[container("once")])
            plain = await outside.create("plain")
            for name in ("once", "plain"):
                await outside.until(name, is_ready)
            server.begin()
            outside.sim.crash(PodUid(plain.metadata.uid), "main", exit_code=1)
            await asyncio.sleep(60)
            assert (await outside.observed(plain)).containers[0].attempt == 1
            assert not (await outside.observed(once)).sandboxes[0].is_ready
            server.end()
            failed = await outside.until("once", lambda one: one.status.phase == "Failed", within_seconds=60)
            assert status_of(failed, "once").state.terminated is not None
            again = await outside.until("plain", lambda one: status_of(one).restart_count == 1, within_seconds=60)
            assert is_ready(again)


async def test_deletion_during_an_outage_is_executed_after_it(tmp_path: Path) -> None:
    """The watch resumes after the outage and misses no change."""
    async with world(tmp_path) as outside:
        server = Outage(outside.api)
        async with outside.starting_node(client=server):
            pod = await outside.create("web")
            await outside.until("web", is_ready)
            server.begin()
            await outside.delete("web")
            await asyncio.sleep(20)
            assert (await outside.observed(pod)).sandboxes[0].is_ready
            server.end()
            await outside.until_gone("web", within_seconds=60)
            assert all(not one.is_ready for found in await outside.sim.pods() for one in found.sandboxes)
