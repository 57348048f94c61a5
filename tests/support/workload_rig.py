"""StatefulSets and DaemonSets with their controllers against the real API without a network, on virtual time.

Pods do not run: simulated nodes bind them, report them ready, and remove deleted ones.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from controller_rig import NAMESPACE, SimulatedNodes, running_controllers
from pykubelet.aio.clock import Clock
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api import schema
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.apps import ControllerRevision, DaemonSet, StatefulSet
from pykubelet.api.generated.core import (
    EventSource,
    Node,
    NodeStatus,
    PersistentVolumeClaim,
    Pod,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    STATEFUL_SETS,
    as_documents,
)
from pykubelet.api.serializer import Document
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client, PatchType
from pykubelet.client.recorder import Recorder
from pykubelet.controllers.daemon.daemon_controller import DaemonSetController, daemon_set_informers
from pykubelet.controllers.daemon.placement import target_node
from pykubelet.controllers.framework.active_pods import ready_condition
from pykubelet.controllers.framework.controller_history import sorted_revisions
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.persistentvolume.protection import ClaimProtectionController
from pykubelet.controllers.persistentvolume.volume_index import PodsByClaim
from pykubelet.controllers.statefulset.stateful_set import StatefulSetController, stateful_set_informers
from pykubelet.testing.local_api import local_api
from pykubelet.testing.virtual_time import VirtualClock


class Cluster:
    """The API server, simulated nodes, and the changes of pods."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        self.client = client
        self.clock = clock or VirtualClock()
        self.happened: list[str] = []
        """`+web-0`, `ready web-0`, `-web-0` (asked to end), in their order."""
        self.nodes = SimulatedNodes(client, self.clock)
        self._pods: dict[str, Pod] = {}

    @asynccontextmanager
    async def controllers(self, client: Client | None = None) -> AsyncIterator[None]:
        """Runs the controllers of StatefulSets, DaemonSets and claims, with another client if given."""
        way, clock = client or self.client, self.clock
        recorder = Recorder(sink=self.client, source=EventSource(component="tests"), clock=clock)
        informers = Informers(client=way, clock=clock)
        stateful = StatefulSetController(
            client=way, recorder=recorder, view=stateful_set_informers(informers), clock=clock
        )
        daemons = DaemonSetController(
            client=way,
            pod_control=PodControl(client=way, recorder=recorder),
            recorder=recorder,
            view=daemon_set_informers(informers),
            expectations=CountingExpectations(),
            clock=clock,
        )
        by_claim = PodsByClaim()
        by_claim.listen(informers)
        # Without it, deleted claims would stay.
        protection = ClaimProtectionController(
            client=way, claims=informers.objects(PERSISTENT_VOLUME_CLAIMS), pods=by_claim
        )
        async with running_controllers(stateful, daemons, protection, informers=informers, recorder=recorder):
            yield

    async def create_set(self, **spec: Any) -> StatefulSet:
        """Create the StatefulSet `web`."""
        await self._create(schema.STATEFUL_SETS, {"serviceName": "web", **spec})
        return await self.stateful_set()

    async def create_daemon(self, **spec: Any) -> DaemonSet:
        """Create the DaemonSet `web`."""
        await self._create(schema.DAEMON_SETS, spec)
        return await self.daemon_set()

    async def _create(self, resource: Resource, spec: Document) -> None:
        image, labels = spec.pop("image", "one"), {"app": "web"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
        }
        await self.client.create(as_documents(resource), body, namespace=NAMESPACE)

    async def create_nodes(self, *names: str, **spec: Any) -> None:
        status = NodeStatus(capacity={"pods": "10"}, allocatable={"pods": "10"})
        for name in names:
            made = Node(metadata=ObjectMeta(name=name, labels={"name": name}), status=status)
            await self.client.create(NODES, made)
            # The server taints new nodes until they report that they are ready.
            await self.client.patch(NODES, name, {"spec": {"taints": [], **spec}}, patch_type=PatchType.MERGE)

    async def patch(self, resource: Resource, spec: Document) -> None:
        """Patch the set as a user does."""
        await self.client.patch(as_documents(resource), "web", {"spec": spec}, namespace=NAMESPACE)

    async def set_image(self, resource: Resource, image: str) -> None:
        """Change the image of the pod template."""
        containers = [{"name": "main", "image": image}]
        await self.patch(resource, {"template": {"spec": {"containers": containers}}})

    async def undo(self, resource: Resource, number: int) -> None:
        """What `kubectl rollout undo --to-revision` does."""
        revision = next(one for one in await self.revisions() if one.revision == number)
        await self.client.patch(as_documents(resource), "web", revision.data, namespace=NAMESPACE)

    async def stateful_set(self) -> StatefulSet:
        """The StatefulSet as the API has it."""
        return await self.client.get(STATEFUL_SETS, "web", namespace=NAMESPACE)

    async def daemon_set(self) -> DaemonSet:
        """The DaemonSet as the API has it."""
        return await self.client.get(DAEMON_SETS, "web", namespace=NAMESPACE)

    async def pods(self) -> dict[str, Pod]:
        """All pods by name."""
        listed = (await self.client.list(PODS, namespace=NAMESPACE)).items
        return {pod.metadata.name: pod for pod in listed}

    async def images(self) -> dict[str, str]:
        """The image of each pod, by pod name, or by node name if there is a DaemonSet."""
        pods = (await self.pods()).values()
        by_node = any(ref.kind == "DaemonSet" for pod in pods for ref in pod.metadata.owner_references)
        return {(target_node(pod) or "") if by_node else pod.metadata.name: _image(pod) for pod in pods}

    async def claims(self) -> dict[str, PersistentVolumeClaim]:
        """All claims by name."""
        listed = (await self.client.list(PERSISTENT_VOLUME_CLAIMS, namespace=NAMESPACE)).items
        return {claim.metadata.name: claim for claim in listed}

    async def revisions(self) -> tuple[ControllerRevision, ...]:
        """All revisions, in their order."""
        return sorted_revisions((await self.client.list(CONTROLLER_REVISIONS, namespace=NAMESPACE)).items)

    async def events(self) -> list[str]:
        """Reason and message of all events, in their order."""
        listed = (await self.client.list(as_documents(schema.EVENTS), namespace=NAMESPACE)).items
        ordered = sorted(listed, key=lambda one: str(one["metadata"]["name"]))
        return [f"{one['reason']}: {one['message']}" for one in ordered]

    async def until(self, holds: Callable[[], Any], *, within_seconds: float = 120.0) -> None:
        """Wait until `holds` returns a true value."""
        async with asyncio.timeout(within_seconds):
            while not await holds():
                await asyncio.sleep(0.2)

    async def until_rolled_out(self, *, within_seconds: float = 120.0) -> None:
        """Wait as `kubectl rollout status` does."""

        async def is_done() -> bool:
            return is_rolled_out(await self.stateful_set())

        await self.until(is_done, within_seconds=within_seconds)

    async def until_daemons_rolled_out(self, *, within_seconds: float = 120.0) -> None:
        """Wait as `kubectl rollout status` does."""

        async def is_done() -> bool:
            return are_daemons_rolled_out(await self.daemon_set())

        await self.until(is_done, within_seconds=within_seconds)

    async def watch_pods(self, ready: asyncio.Event) -> None:
        """Record how pods are created, become ready and end."""
        async with self.client.watch(PODS, namespace=NAMESPACE, resource_version="0") as events:
            ready.set()
            async for event in events:
                if event.object is not None:
                    self._note(event.object, is_gone=event.type == "DELETED")

    def _note(self, pod: Pod, *, is_gone: bool) -> None:
        name, old = pod.metadata.name, self._pods.pop(pod.metadata.name, None)
        if old is None:
            self.happened.append(f"+{name}")
        if (old is None or ready_condition(old) is None) and ready_condition(pod) is not None:
            self.happened.append(f"ready {name}")
        was_ending = old is not None and old.metadata.deletion_timestamp is not None
        if not was_ending and (is_gone or pod.metadata.deletion_timestamp is not None):
            self.happened.append(f"-{name}")
        if not is_gone:
            self._pods[name] = pod

    async def collect_garbage(self) -> None:
        """Delete objects whose owners no longer exist."""
        owners, owned = list[Document](), list[tuple[Resource, Document]]()
        for resource in (schema.STATEFUL_SETS, schema.DAEMON_SETS, schema.PODS):
            owners += (await self.client.list(as_documents(resource), namespace=NAMESPACE)).items
        for resource in (schema.PODS, schema.PERSISTENT_VOLUME_CLAIMS, schema.CONTROLLER_REVISIONS):
            listing = await self.client.list(as_documents(resource), namespace=NAMESPACE)
            owned += [(resource, one) for one in listing.items]
        alive = {one["metadata"]["uid"] for one in owners}
        for resource, one in owned:
            wanted = {owner["uid"] for owner in one["metadata"].get("ownerReferences", ())}
            if wanted and not wanted & alive:
                try:
                    await self.client.delete(as_documents(resource), one["metadata"]["name"], namespace=NAMESPACE)
                except ApiError:
                    continue


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Cluster]:
    """An API server with simulated nodes, without controllers."""
    async with local_api(folder) as api:
        made, ready = Cluster(api.client), asyncio.Event()
        async with running({"pods": made.nodes.run, "watch of pods": with_ready_event(made.watch_pods, ready)}):
            await ready.wait()
            yield made


def _image(pod: Pod) -> str:
    return str(pod.spec.containers[0].image)


def is_rolled_out(stateful_set: StatefulSet) -> bool:
    """Whether `kubectl rollout status` would succeed now: the partition is updated, or both revisions are the same."""
    status, wanted = stateful_set.status, stateful_set.spec.replicas or 0
    rolling = stateful_set.spec.update_strategy.rolling_update
    partition = (rolling.partition or 0) if rolling is not None else 0
    return (
        0 < stateful_set.metadata.generation <= status.observed_generation
        and status.replicas == wanted
        and status.ready_replicas >= wanted
        and status.updated_replicas >= wanted - partition
        and (partition > 0 or status.update_revision == status.current_revision)
    )


def are_daemons_rolled_out(daemon_set: DaemonSet) -> bool:
    """Whether `kubectl rollout status` would succeed now."""
    status = daemon_set.status
    return (
        daemon_set.metadata.generation <= status.observed_generation
        and status.updated_number_scheduled >= status.desired_number_scheduled
        and status.number_available >= status.desired_number_scheduled
    )
