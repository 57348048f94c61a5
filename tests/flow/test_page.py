"""The web page of a whole node on virtual time: a browser that applies all changes shows the current state."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pykubelet.aio.queues import Subscription
from pykubelet.aio.tasks import background_task
from pykubelet.api.scheme import PODS
from pykubelet.app.node import Node
from pykubelet.app.page import node_view
from pykubelet.kubelet.node_view import ClusterPodExplainer, pod_usages
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun
from pykubelet.testing.build import pod
from pykubelet.web.feed import PageFeed
from pykubelet.web.node_view import PodUsageHistory
from pykubelet.web.tables import ApiTables
from web_rig import told
from whole_node import NAMESPACE, World, container, is_ready, world

SCRIPTS = {"crash": Behaviour(runs=(ContainerRun(seconds=1, exit_code=3),))}
# Longer than the feed's interval, shorter than its interval for refreshing without a hint.
A_MOMENT = 2.0


class Looking:
    """A browser: holds the first state it received, and applies the changes."""

    def __init__(self, node: Node, feed: PageFeed, everything: bytes, changes: Subscription[bytes]) -> None:
        self.node, self.feed, self._changes = node, feed, changes
        _, first = told(everything)
        self.rows = {row["key"]: row for row in first["pods"]}
        self.counts: dict[str, Any] = first["counts"]

    async def catch_up(self) -> None:
        """Wait a moment and apply the received changes."""
        await asyncio.sleep(A_MOMENT)
        while len(self._changes):
            _, change = told(await self._changes.next())
            if "pods" in change:
                self.rows |= {row["key"]: row for row in change["pods"]["rows"]}
                for gone in change["pods"]["gone"]:
                    del self.rows[gone]
            self.counts = change.get("counts", self.counts)

    def has_everything(self) -> bool:
        """Whether a browser that connects now would get the same state."""
        _, now = told(self.feed.everything())
        return self.rows == {row["key"]: row for row in now["pods"]} and self.counts == now["counts"]


@asynccontextmanager
async def looking(around: World) -> AsyncIterator[Looking]:
    """A node, and a browser connected to its page."""
    async with around.running_node() as node:
        tables = ApiTables(client=around.api, clock=around.clock)
        problems = node.sources.problems.all
        feed = PageFeed(node=node_view(node), tables=tables, problems=problems, about={}, clock=around.clock)
        node.dependencies.trail.on_news(feed.pod_changed)
        async with (
            background_task(feed.run(asyncio.Event()), "feed"),
            background_task(tables.run(feed.is_read), "tables"),
        ):
            with feed.reading() as (everything, changes):
                yield Looking(node, feed, everything, changes)


async def test_browser_follows_the_life_of_a_pod(tmp_path: Path) -> None:
    """The row appears, shows Running and is removed; the counts change with it."""
    async with world(tmp_path) as around, looking(around) as browser:
        assert browser.rows == {}
        await around.create("web")
        await around.until("web", is_ready)
        await browser.catch_up()
        row = browser.rows["default/web"]
        assert (row["word"], row["tone"], row["worker"], row["source"]) == ("Running", "good", "sync", "api")
        counts = browser.counts
        assert (counts["desired"], counts["running"], counts["sent"], counts["pending"]) == (1, 1, 1, 0)
        assert browser.has_everything()
        await around.delete("web")
        await around.until_gone("web")
        await browser.catch_up()
        assert browser.rows == {}
        assert browser.counts["desired"] == browser.counts["inApi"] == 0
        assert browser.has_everything()


async def test_browser_shows_crashing_and_unscheduled_pods(tmp_path: Path) -> None:
    """A pod without a node has a row but does not count as desired. The explanation names the blocking step."""
    async with world(tmp_path, scripts=SCRIPTS) as around, looking(around) as browser:
        await around.create("crash", containers=[container("crash")])
        await around.until("crash", lambda seen: any(one.restart_count for one in seen.status.container_statuses))
        await around.api.create(PODS, pod("lonely", node_name=""), namespace=NAMESPACE)
        await asyncio.sleep(5)
        await browser.catch_up()
        assert (browser.rows["default/crash"]["word"], browser.rows["default/crash"]["tone"]) == (
            "CrashLoopBackOff",
            "bad",
        )
        assert browser.rows["default/lonely"]["word"] == "Pending"
        assert (browser.counts["desired"], browser.counts["inApi"], browser.counts["tones"]["bad"]) == (1, 2, 1)
        node = browser.node
        explained = ClusterPodExplainer(
            explainer=node.explainer(), view=node_view(node), api=around.api, clock=around.clock
        )
        here = await explained.explain(NAMESPACE, "crash")
        elsewhere = await explained.explain(NAMESPACE, "lonely")
        assert here is not None
        assert elsewhere is not None
        assert (here["waitsFor"]["step"], here["toldBy"]) == ("crash loop", "node-1")
        assert (elsewhere["waitsFor"]["step"], "toldBy" in elsewhere) == ("scheduling", False)
        assert await explained.explain(NAMESPACE, "nobody") is None


async def test_pod_usage_is_not_measured_until_wanted(tmp_path: Path) -> None:
    async with world(tmp_path) as around, looking(around) as browser:
        await around.create("web")
        await around.until("web", is_ready)
        measured, wanted = (
            PodUsageHistory(partial(pod_usages, browser.node.dependencies.runtime.usages, browser.node.pleg.cache)),
            asyncio.Event(),
        )
        async with background_task(measured.run(wanted), "measures"):
            await asyncio.sleep(20)
            assert measured.points("default/web") == ()
            wanted.set()
            await asyncio.sleep(20)
            assert len(measured.points("default/web")) > 3
