"""HorizontalPodAutoscalers on a whole API server and virtual time: usage of nodes becomes replicas of a ReplicaSet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller_rig import Bench
from pykubelet.aio.tasks import background_task, running
from pykubelet.api import scheme
from pykubelet.api.errors import NotFound, ServiceUnavailable
from pykubelet.api.schema import HORIZONTAL_POD_AUTOSCALERS, NODES, POD_METRICS, PODS, REPLICA_SETS
from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time
from pykubelet.apiserver.loopback import LoopbackClient
from pykubelet.apiserver.metricsserver.api import METRICS_KINDS, MetricsApi
from pykubelet.apiserver.metricsserver.scraper import KEPT_SECONDS, UsageScraper
from pykubelet.apiserver.server import Server
from pykubelet.client.informers import PodsByLabel
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.podautoscaler.horizontal import HorizontalController
from pykubelet.controllers.replicaset.replica_set import ReplicaSetController
from pykubelet.testing.local_api import CountingIds, LocalApi, local_api
from pykubelet.testing.virtual_time import VirtualClock

CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}


class Autoscaling(Bench):
    """ReplicaSets, their autoscalers, and a node whose pods share a load evenly, in cores."""

    def __init__(self, api: LocalApi) -> None:
        self.clock = VirtualClock()
        self.load, self.fetches, self.is_reachable = 0.0, 0, True
        self._used: dict[str, float] = {}
        self._measured_at = self.clock.monotonic()
        self.scraper = UsageScraper(lambda: [entry.document for entry in api.store.entries("nodes")], self.page)
        for kind in METRICS_KINDS:
            api.registry.add(kind)
        metrics = MetricsApi(self.scraper, api.store.get, self.clock)
        server = Server(
            store=api.store, registry=api.registry, clock=self.clock, ids=CountingIds(), handlers=metrics.handlers()
        )
        self.api = LoopbackClient(server, api.registry)
        super().__init__(self.api)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        await self.make(NODES, "node-1")
        pods, objects = PodsByLabel(), self.informers.objects
        pods.listen(self.informers)
        autoscalers = HorizontalController(
            client=self.api,
            recorder=self.recorder,
            clock=self.clock,
            autoscalers=objects(scheme.HORIZONTAL_POD_AUTOSCALERS),
            pods=pods,
        )
        sets = ReplicaSetController(
            client=self.api,
            pod_control=PodControl(client=self.api, recorder=self.recorder),
            pods=self.informers.pods,
            sets=objects(scheme.REPLICA_SETS),
            expectations=UidTrackingExpectations(),
            clock=self.clock,
        )
        async with (
            self.running(sets, autoscalers),
            running({"usage": self.scraper.run}),
            background_task(self.start_pods(), "node"),
        ):
            yield

    async def start_pods(self) -> None:
        """Makes each new pod ready within a second, as its node would."""
        while True:
            for pod in await self.all(PODS):
                if pod["status"].get("phase") == "Pending":
                    at = format_time(self.clock.now())
                    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at}
                    status = {"phase": "Running", "startTime": at, "conditions": [ready]}
                    await self.change(PODS, pod["metadata"]["name"], {"status": status}, subresource="status")
            await asyncio.sleep(1)

    async def page(self, node: Document) -> bytes:
        """The node's /metrics/resource; any other node claims all pods, with a memory of a terabyte."""
        self.fetches += 1
        is_own = node["metadata"]["name"] == "node-1"
        if not self.is_reachable:
            raise ServiceUnavailable("error trying to reach 10.0.0.1:10250: connection refused")
        now, pods = self.clock.monotonic(), [pod["metadata"]["name"] for pod in await self.all(PODS)]
        seconds, self._measured_at = now - self._measured_at, now
        milliseconds = int(self.clock.now().timestamp() * 1000)
        lines = []
        for name in pods:
            self._used[name] = self._used.get(name, 0.0) + seconds * self.load / len(pods)
            labels = f'{{container="c",namespace="default",pod="{name}"}}'
            lines += [
                f"container_cpu_usage_seconds_total{labels} {self._used[name]} {milliseconds}",
                f"container_memory_working_set_bytes{labels} {'1.048576e+06' if is_own else '1e+12'} {milliseconds}",
            ]
        return "\n".join(lines).encode()

    async def workload(self, name: str = "web", replicas: int = 1, request: str = "100m") -> None:
        labels = {"app": name}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": request} if request else {}}}
        template = {"metadata": {"labels": labels}, "spec": {"nodeName": "node-1", "containers": [container]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        await self.make(REPLICA_SETS, name, spec=spec)

    async def autoscaler(self, name: str = "web", **spec: Any) -> None:
        target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}
        spec = {"scaleTargetRef": target, "maxReplicas": 10, "metrics": [CPU], **spec}
        await self.make(HORIZONTAL_POD_AUTOSCALERS, name, spec=spec)

    async def status(self, name: str = "web") -> Document:
        found: Document = (await self.get(HORIZONTAL_POD_AUTOSCALERS, name) or {})["status"]
        return found

    async def condition(self, kind: str, name: str = "web") -> tuple[str, str, str]:
        """Status, reason and message of a condition."""
        rows = (await self.status(name)).get("conditions") or ()
        return next((row["status"], row["reason"], row["message"]) for row in rows if row["type"] == kind)

    async def replicas(self) -> int:
        return int((await self.get(REPLICA_SETS, "web") or {})["spec"]["replicas"])


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Autoscaling]:
    async with local_api(tmp_path) as api:
        yield Autoscaling(api)


async def test_replicas_follow_the_load_and_decrease_five_minutes_after_it(bench: Autoscaling) -> None:
    """Eight replicas at half of 100m carry 0.4 cores. They are reached in two steps, because replicas at most quadruple."""
    await bench.workload()
    bench.load = 0.4
    async with bench.at_work():
        await asyncio.sleep(20)
        await bench.autoscaler()
        await asyncio.sleep(5)
        assert await bench.replicas() == 4
        assert (await bench.condition("ScalingLimited"))[:2] == ("True", "ScaleUpLimit")
        await asyncio.sleep(120)
        status = await bench.status()
        assert (status["currentReplicas"], status["desiredReplicas"]) == (8, 8)
        current = status["currentMetrics"][0]["resource"]["current"]
        assert current == {"averageUtilization": 50, "averageValue": "50m"}
        assert (await bench.condition("AbleToScale"))[:2] == ("True", "ReadyForNewScale")
        assert await bench.condition("ScalingActive") == (
            "True",
            "ValidMetricFound",
            (
                "the HPA was able to successfully calculate a replica count from cpu resource utilization "
                "(percentage of request)"
            ),
        )
        assert "New size: 8; reason: cpu resource utilization (percentage of request) above target" in (
            await bench.events("SuccessfulRescale")
        )
        scaled_at = status["lastScaleTime"]
        bench.load = 0.08
        await asyncio.sleep(200)
        assert await bench.replicas() == 8
        assert (await bench.condition("AbleToScale"))[:2] == ("True", "ScaleDownStabilized")
        await asyncio.sleep(200)
        assert await bench.replicas() == 2
        assert (await bench.status())["lastScaleTime"] > scaled_at
        assert "New size: 2; reason: All metrics below target" in await bench.events("SuccessfulRescale")


async def test_behavior_limits_how_fast_replicas_change(bench: Autoscaling) -> None:
    await bench.workload(replicas=2)
    one_a_minute = {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}
    bench.load = 1.0
    async with bench.at_work():
        await asyncio.sleep(20)
        await bench.autoscaler(behavior={"scaleUp": one_a_minute, "scaleDown": {"stabilizationWindowSeconds": 0}})
        await asyncio.sleep(50)
        assert await bench.replicas() == 3
        assert (await bench.condition("ScalingLimited"))[:2] == ("True", "ScaleUpLimit")
        await asyncio.sleep(60)
        assert await bench.replicas() == 4
        bench.load = 0.05
        await asyncio.sleep(60)
        assert await bench.replicas() == 1


async def test_unknown_usage_changes_nothing_and_says_why(bench: Autoscaling) -> None:
    await bench.workload(replicas=3)
    bench.is_reachable = False
    async with bench.at_work():
        await bench.autoscaler()
        await asyncio.sleep(40)
        assert await bench.condition("ScalingActive") == (
            "False",
            "FailedGetResourceMetric",
            (
                "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics "
                "for resource cpu: no metrics returned from resource metrics API"
            ),
        )
        assert await bench.events("FailedComputeMetricsReplicas") == [
            (
                "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to "
                "get cpu utilization: unable to get metrics for resource cpu: no metrics returned from resource metrics API"
            )
        ]
        assert await bench.replicas() == 3
        bench.is_reachable, bench.load = True, 0.3
        await asyncio.sleep(60)
        assert (await bench.condition("ScalingActive"))[:2] == ("True", "ValidMetricFound")
        assert await bench.replicas() == 6


async def test_missing_request_is_named(bench: Autoscaling) -> None:
    await bench.workload(request="")
    async with bench.at_work():
        await asyncio.sleep(20)
        await bench.autoscaler()
        await asyncio.sleep(40)
        message = (await bench.condition("ScalingActive"))[2]
        assert "failed to get cpu utilization: missing request for cpu in container c of Pod web-" in message


async def test_two_autoscalers_of_the_same_pods_do_nothing(bench: Autoscaling) -> None:
    await bench.workload(replicas=2)
    bench.load = 2.0
    async with bench.at_work():
        await asyncio.sleep(20)
        for name in ("a", "b"):
            await bench.autoscaler(name, minReplicas=2, maxReplicas=2)
        await asyncio.sleep(40)
        for name in ("a", "b"):
            assert await bench.condition("ScalingActive", name) == (
                "False",
                "AmbiguousSelector",
                "pods by selector app=web are controlled by multiple HPAs: [{a default} {b default}]",
            )
        assert await bench.replicas() == 2
        await bench.delete(HORIZONTAL_POD_AUTOSCALERS, "b")
        await asyncio.sleep(20)
        assert (await bench.condition("ScalingActive", "a"))[:2] == ("True", "ValidMetricFound")


async def test_metrics_that_nobody_serves_are_refused_with_their_reason(bench: Autoscaling) -> None:
    """One metric that fails does not prevent scaling up by another; alone it prevents any scaling."""
    pods = {
        "type": "Pods",
        "pods": {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "5"}},
    }
    await bench.workload(replicas=2)
    async with bench.at_work():
        await asyncio.sleep(20)
        await bench.autoscaler(metrics=[pods, CPU])
        await asyncio.sleep(40)
        assert (await bench.condition("ScalingActive"))[:2] == ("False", "FailedGetPodsMetric")
        assert await bench.replicas() == 2
        bench.load = 0.4
        await asyncio.sleep(60)
        assert (await bench.condition("ScalingActive"))[:2] == ("True", "ValidMetricFound")
        assert await bench.replicas() == 8
        # The metric that failed keeps its place.
        assert [row["type"] for row in (await bench.status())["currentMetrics"]] == ["", "Resource"]


async def test_bounds_and_missing_targets(bench: Autoscaling) -> None:
    """Replicas outside the bounds are corrected without metrics; a target with zero replicas is not scaled."""
    await bench.workload(replicas=9)
    async with bench.at_work():
        await bench.autoscaler(maxReplicas=4)
        gone = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone"}
        await bench.autoscaler("lost", scaleTargetRef=gone)
        await bench.autoscaler("odd", scaleTargetRef={**gone, "kind": "Nothing"})
        await asyncio.sleep(5)
        assert await bench.replicas() == 4
        assert await bench.events("SuccessfulRescale") == [
            "New size: 4; reason: Current number of replicas above Spec.MaxReplicas"
        ]
        assert await bench.condition("AbleToScale", "lost") == (
            "False",
            "FailedGetScale",
            'the HPA controller was unable to get the target\'s current scale: replicasets.apps "gone" not found',
        )
        assert (await bench.condition("AbleToScale", "odd"))[1] == "FailedGetScale"
        await bench.change(REPLICA_SETS, "web", {"spec": {"replicas": 0}})
        await asyncio.sleep(20)
        assert (await bench.condition("ScalingActive"))[:2] == ("False", "ScalingDisabled")
        assert await bench.replicas() == 0


async def test_node_reports_the_usage_of_its_own_pods_only(bench: Autoscaling) -> None:
    await bench.workload(replicas=2)
    async with bench.at_work():
        await bench.make(NODES, "node-2")
        await asyncio.sleep(20)
        kind = scheme.as_documents(POD_METRICS)
        found = (await bench.api.list(kind, namespace="default")).items
        assert [pod["containers"][0]["usage"]["memory"] for pod in found] == ["1Mi"] * 2
        name = found[0]["metadata"]["name"]
        one = await bench.api.get(kind, name, namespace="default")
        assert (one["containers"][0]["usage"]["memory"], one["metadata"]["labels"]["app"]) == ("1Mi", "web")
        with pytest.raises(NotFound, match=r'^podmetrics\.metrics\.k8s\.io "default/gone" not found$'):
            await bench.api.get(kind, "gone", namespace="default")


async def test_usage_is_read_only_while_somebody_asks(bench: Autoscaling) -> None:
    await bench.workload(replicas=2)
    bench.load = 0.2
    async with bench.at_work():
        await asyncio.sleep(100)
        assert bench.fetches == 0
        kind = scheme.as_documents(POD_METRICS)
        found = (await bench.api.list(kind, namespace="default")).items
        assert [pod["containers"][0]["usage"] for pod in found] == [{"cpu": "100m", "memory": "1Mi"}] * 2
        assert bench.fetches == 2
        await asyncio.sleep(KEPT_SECONDS + 30)
        fetches = bench.fetches
        assert fetches <= 7
        await asyncio.sleep(600)
        assert bench.fetches == fetches
