"""What the ingress controller writes, on a whole API server and virtual time; nothing listens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from controller_rig import Bench
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.schema import EVENTS, INGRESSES
from pykubelet.ingress.backends import ServiceBackends
from pykubelet.ingress.certificates import IngressCertificates
from pykubelet.ingress.controller import IngressController
from pykubelet.ingress.routes import Routes
from pykubelet.testing.local_api import local_api


class Ingresses(Bench):
    """Ingresses and their controller."""

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        controller = IngressController(
            client=self.client,
            recorder=self.recorder,
            routes=Routes(),
            backends=ServiceBackends(),
            certificates=IngressCertificates(self.clock),
        )
        controller.listen(self.informers)
        informed = asyncio.Event()
        runners = {
            "events": with_ready_event(self.recorder.run),
            "informers": with_ready_event(self.informers.run, informed),
            "ingress": lambda: controller.run(informed),
        }
        async with running(runners):
            yield

    async def ingress(self, name: str) -> None:
        backend = {"service": {"name": "missing", "port": {"number": 80}}}
        path = {"path": "/", "pathType": "Prefix", "backend": backend}
        rules: list[dict[str, Any]] = [{"host": "web.example.com", "http": {"paths": [path]}}]
        await self.make(INGRESSES, name, spec={"rules": rules})

    async def count(self, reason: str, name: str) -> int:
        """How often an event was reported for Ingresses of this name, repetitions counted."""
        found = [one for one in await self.all(EVENTS) if one["reason"] == reason]
        return sum(one.get("count", 1) for one in found if one["involvedObject"]["name"] == name)


async def test_ingress_that_is_made_again_has_events_of_its_own(tmp_path: Path) -> None:
    async with local_api(tmp_path) as api:
        cluster = Ingresses(api.client)
        async with cluster.at_work():
            for count in (1, 2):
                await cluster.ingress("web")
                await asyncio.sleep(5)
                assert await cluster.count("ServiceNotFound", "web") == count
                await cluster.delete(INGRESSES, "web")
                await asyncio.sleep(5)


async def test_conflict_is_an_event_of_each_ingress_that_loses_and_ends_with_the_winner(tmp_path: Path) -> None:
    async with local_api(tmp_path) as api:
        cluster = Ingresses(api.client)
        async with cluster.at_work():
            for name in ("a", "b", "c"):
                await cluster.ingress(name)
                await asyncio.sleep(2)
            assert [await cluster.count("RouteConflict", name) for name in "abc"] == [0, 1, 1]
            await cluster.delete(INGRESSES, "a")
            await asyncio.sleep(5)
            # The last one loses to another winner now.
            assert [await cluster.count("RouteConflict", name) for name in "abc"] == [0, 1, 2]
