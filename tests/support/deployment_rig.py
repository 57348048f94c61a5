"""Deployments with their controllers against the real API without a network, on virtual time.

Pods do not run: simulated nodes bind them, report them ready, and remove deleted ones.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from controller_rig import NAMESPACE, SimulatedNodes, running_controllers
from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api import schema
from pykubelet.api.generated.apps import Deployment, DeploymentCondition, ReplicaSet
from pykubelet.api.generated.core import EventSource, Pod
from pykubelet.api.scheme import DEPLOYMENTS, PODS, REPLICA_SETS, ApiObject, TypedKind, as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.indexer import controller_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.deployment.deployment_controller import DeploymentController
from pykubelet.controllers.framework.active_pods import is_pod_active, ready_condition
from pykubelet.controllers.framework.expectations import UidTrackingExpectations
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.replicaset.replica_set import ReplicaSetController
from pykubelet.testing.local_api import local_api
from pykubelet.testing.virtual_time import VirtualClock

T = TypeVar("T", bound=ApiObject)

DOCUMENTS = as_documents(schema.DEPLOYMENTS)


@dataclass(frozen=True, slots=True)
class Seen:
    """The pods of all Deployments at one moment."""

    active: int
    available: int
    images: frozenset[str]
    """Of all of them, also those that are being deleted."""


class Cluster:
    """The API server, simulated nodes, and the states of all pods that a watch has seen."""

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self.client = client
        self.clock: Clock = clock or VirtualClock()
        self.seen: list[Seen] = []
        self.created: list[str] = []
        self.nodes = SimulatedNodes(client, self.clock)
        self._pods: dict[str, Pod] = {}

    @asynccontextmanager
    async def controllers(self, client: Client | None = None) -> AsyncIterator[None]:
        """Runs the controllers of Deployments and ReplicaSets, with another client if given."""
        way, clock = client or self.client, self.clock
        recorder = Recorder(sink=self.client, source=EventSource(component="tests"), clock=clock)
        informers = Informers(client=way, clock=clock)
        sets, pods = informers.objects(REPLICA_SETS), informers.pods
        replica_sets = ReplicaSetController(
            client=way,
            pod_control=PodControl(client=way, recorder=recorder),
            pods=pods,
            sets=sets,
            expectations=UidTrackingExpectations(),
            clock=clock,
        )
        deployments = DeploymentController(
            client=way,
            recorder=recorder,
            clock=clock,
            deployments=informers.objects(DEPLOYMENTS),
            sets=sets,
            pods=pods,
        )
        async with running_controllers(replica_sets, deployments, informers=informers, recorder=recorder):
            yield

    async def create(self, name: str = "web", **spec: Any) -> Deployment:
        """Create a Deployment; `image` and `annotations` are not fields of its spec."""
        image, annotations = spec.pop("image", "one"), spec.pop("annotations", {})
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
        body = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
        }
        await self.client.create(DOCUMENTS, body, namespace=NAMESPACE)
        return await self.deployment(name)

    async def patch(self, body: Document, name: str = "web") -> None:
        """Patch a Deployment as a user does."""
        await self.client.patch(DEPLOYMENTS, name, body, namespace=NAMESPACE)

    async def set_image(self, image: str, name: str = "web") -> None:
        """Change the image of the pod template."""
        containers = [{"name": "main", "image": image}]
        await self.patch({"spec": {"template": {"spec": {"containers": containers}}}}, name)

    async def deployment(self, name: str = "web") -> Deployment:
        """The Deployment as the API has it."""
        return await self.client.get(DEPLOYMENTS, name, namespace=NAMESPACE)

    async def sets(self) -> dict[str, ReplicaSet]:
        """The ReplicaSets by the image of their pods."""
        listed = (await self.client.list(REPLICA_SETS, namespace=NAMESPACE)).items
        return {str(one.spec.template.spec.containers[0].image): one for one in listed}

    async def pods(self) -> tuple[Pod, ...]:
        return (await self.client.list(PODS, namespace=NAMESPACE)).items

    async def events(self) -> list[str]:
        """The messages of the events about Deployments, in their order."""
        listed = (await self.client.list(as_documents(schema.EVENTS), namespace=NAMESPACE)).items
        about = [one for one in listed if one["involvedObject"]["kind"] == "Deployment"]
        return [one["message"] for one in sorted(about, key=lambda one: str(one["metadata"]["name"]))]

    async def until(
        self, holds: Callable[[Deployment], bool], *, name: str = "web", within_seconds: float = 120.0
    ) -> Deployment:
        """Wait until `holds` is true of a Deployment, and return it."""
        async with asyncio.timeout(within_seconds):
            while not holds(found := await self.deployment(name)):
                await asyncio.sleep(0.5)
            return found

    async def watch_pods(self, ready: asyncio.Event) -> None:
        """Record the pods after every single change."""
        async with self.client.watch(PODS, namespace=NAMESPACE) as events:
            ready.set()
            async for event in events:
                if event.object is None:
                    continue
                name = event.object.metadata.name
                if event.type == "ADDED":
                    self.created.append(name)
                self._pods[name] = event.object
                if event.type == "DELETED":
                    del self._pods[name]
                active = [pod for pod in self._pods.values() if is_pod_active(pod)]
                available = sum(ready_condition(pod) is not None for pod in active)
                images = frozenset(str(pod.spec.containers[0].image) for pod in self._pods.values())
                self.seen.append(Seen(len(active), available, images))

    async def collect_garbage(self) -> None:
        """Delete ReplicaSets and pods whose controller no longer exists."""
        await self._collect(REPLICA_SETS, await self._uids(DEPLOYMENTS))
        await self._collect(PODS, await self._uids(REPLICA_SETS))

    async def _uids(self, kind: TypedKind[T]) -> set[str]:
        return {one.metadata.uid for one in (await self.client.list(kind, namespace=NAMESPACE)).items}

    async def _collect(self, kind: TypedKind[T], alive: set[str]) -> None:
        for one in (await self.client.list(kind, namespace=NAMESPACE)).items:
            manager = controller_of(one)
            if manager is not None and manager.uid not in alive:
                await self.client.delete(kind, one.metadata.name, namespace=NAMESPACE)


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """An API server with simulated nodes, without controllers."""
    async with local_api(folder) as api:
        made, ready = Cluster(api.client), asyncio.Event()
        async with running({"pods": made.nodes.run, "watch of pods": with_ready_event(made.watch_pods, ready)}):
            await ready.wait()
            yield made


def progressing(deployment: Deployment) -> DeploymentCondition:
    """The Progressing condition of a Deployment."""
    return next(one for one in deployment.status.conditions if one.type == "Progressing")


def is_rolled_out(deployment: Deployment) -> bool:
    """Whether `kubectl rollout status` would succeed now."""
    status = deployment.status
    return (
        status.observed_generation >= deployment.metadata.generation
        and status.updated_replicas == (deployment.spec.replicas or 0)
        and status.replicas <= status.updated_replicas
        and status.available_replicas >= status.updated_replicas
    )
