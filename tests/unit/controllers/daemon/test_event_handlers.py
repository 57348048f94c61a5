"""The DaemonSets that an event enqueues, and the expectations that it fulfils."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.apps import ControllerRevision, DaemonSet, DaemonSetSpec
from pykubelet.api.generated.core import Node, NodeSpec, Pod, PodCondition, PodSpec, PodStatus, PodTemplateSpec, Taint
from pykubelet.api.generated.meta import LabelSelector, ObjectMeta
from pykubelet.client.indexer import ObjectIndex
from pykubelet.controllers.daemon.daemon_controller import DaemonSetEventHandlers
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.ownership import new_controller_ref
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.testing.virtual_time import EPOCH

AT = EPOCH.isoformat()


def daemon_set(name: str, **spec: Any) -> DaemonSet:
    template = PodTemplateSpec(spec=PodSpec(node_selector=spec.pop("node_selector", {})))
    selector = LabelSelector(match_labels={"app": name})
    return DaemonSet(
        metadata=ObjectMeta(name=name, namespace="ns", uid=f"{name}-uid"),
        spec=DaemonSetSpec(selector=selector, template=template, **spec),
    )


A, B = daemon_set("a"), daemon_set("b", min_ready_seconds=30)
SSD = daemon_set("ssd", node_selector={"disk": "ssd"})


def meta(owner: DaemonSet | None, app: str = "a", version: str = "1", **more: Any) -> ObjectMeta:
    references = () if owner is None else (new_controller_ref(owner),)
    labels = {"app": app}
    return ObjectMeta(
        name="x", namespace="ns", labels=labels, resource_version=version, owner_references=references, **more
    )


def pod(owner: DaemonSet | None, app: str = "a", version: str = "1", *, ready: bool = False, **more: Any) -> Pod:
    conditions = (PodCondition(type="Ready", status="True"),) if ready else ()
    return Pod(metadata=meta(owner, app, version, **more), status=PodStatus(conditions=conditions))


def node(*taints: Taint, **labels: str) -> Node:
    return Node(metadata=ObjectMeta(name="n", labels=labels), spec=NodeSpec(taints=taints))


class World:
    """The event handlers over three DaemonSets."""

    def __init__(self) -> None:
        self.expectations, self.queue = CountingExpectations(), WorkQueue()
        self.handlers = DaemonSetEventHandlers(
            sets=ObjectIndex([A, B, SSD]), expectations=self.expectations, queue=self.queue
        )

    async def woken(self) -> list[str]:
        found: list[str] = []

        async def note(key: str) -> None:
            found.append(key.removeprefix("ns/"))

        while len(self.queue):
            await self.queue.process_next(note)
        return found


def revision(owner: DaemonSet | None, app: str = "a", version: str = "1") -> ControllerRevision:
    return ControllerRevision(metadata=meta(owner, app, version))


NEWS: list[tuple[str, Callable[[DaemonSetEventHandlers], None], list[str]]] = [
    ("new set", lambda handlers: handlers.set_added(A), ["a"]),
    ("changed set", lambda handlers: handlers.set_updated(A, A), ["a"]),
    ("pod", lambda handlers: handlers.pod_added(pod(A)), ["a"]),
    ("pod of another kind", lambda handlers: handlers.pod_added(pod(replace(A, kind="Other"))), []),
    ("orphan", lambda handlers: handlers.pod_added(pod(None)), ["a"]),
    ("orphan nobody selects", lambda handlers: handlers.pod_added(pod(None, "z")), []),
    ("ending pod", lambda handlers: handlers.pod_added(pod(A, deletion_timestamp=AT)), ["a"]),
    ("same pod", lambda handlers: handlers.pod_updated(pod(A), pod(A)), []),
    ("changed pod", lambda handlers: handlers.pod_updated(pod(A), pod(A, version="2")), ["a"]),
    ("released pod", lambda handlers: handlers.pod_updated(pod(A), pod(None, "b", "2")), ["a", "b"]),
    ("adopted pod", lambda handlers: handlers.pod_updated(pod(None), pod(B, version="2")), ["b"]),
    ("orphan the same", lambda handlers: handlers.pod_updated(pod(None), pod(None, version="2")), []),
    ("orphan with other labels", lambda handlers: handlers.pod_updated(pod(None), pod(None, "b", "2")), ["b"]),
    ("pod ends", lambda handlers: handlers.pod_updated(pod(A), pod(A, version="2", deletion_timestamp=AT)), ["a"]),
    ("pod gone", lambda handlers: handlers.pod_deleted(pod(A)), ["a"]),
    ("orphan gone", lambda handlers: handlers.pod_deleted(pod(None)), []),
    ("new node", lambda handlers: handlers.node_added(node()), ["a", "b", "ssd"]),
    ("heartbeat", lambda handlers: handlers.node_updated(node(), node()), []),
    ("label that matters to one", lambda handlers: handlers.node_updated(node(), node(disk="ssd")), ["ssd"]),
    ("taint", lambda handlers: handlers.node_updated(node(), node(Taint(key="k", effect="NoSchedule"))), ["a", "b"]),
    ("node gone", lambda handlers: handlers.node_deleted(node()), ["a", "b"]),
    ("own revision", lambda handlers: handlers.revision_added(revision(A)), []),
    ("orphan revision", lambda handlers: handlers.revision_added(revision(None)), ["a"]),
    ("same revision", lambda handlers: handlers.revision_updated(revision(A), revision(A)), []),
    ("changed revision", lambda handlers: handlers.revision_updated(revision(A), revision(A, version="2")), ["a"]),
    ("revision gone", lambda handlers: handlers.revision_deleted(revision(A)), ["a"]),
    ("orphan revision gone", lambda handlers: handlers.revision_deleted(revision(None)), []),
]


@pytest.mark.parametrize(("event", "expected"), [pytest.param(*row[1:], id=row[0]) for row in NEWS])
async def test_event_enqueues_the_sets_it_concerns(
    event: Callable[[DaemonSetEventHandlers], None], expected: list[str]
) -> None:
    world = World()
    event(world.handlers)
    assert await world.woken() == expected


async def test_pods_fulfil_what_is_expected() -> None:
    """A terminating pod counts as a deletion, not as a creation. A recreated set has no expectations."""
    world = World()
    world.expectations.set("ns/a", add=1, delete=1, now_seconds=0)
    world.handlers.pod_added(pod(A, deletion_timestamp=AT))
    found = world.expectations.get("ns/a")
    assert found is not None
    assert (found.add, found.delete) == (1, 0)
    world.handlers.pod_added(pod(A))
    assert found.fulfilled
    world.handlers.set_updated(A, replace(A, metadata=replace(A.metadata, uid="other")))
    assert world.expectations.get("ns/a") is None


async def test_ready_pod_requeues_its_set_for_when_it_is_available() -> None:
    """Only a set with minReadySeconds is requeued later."""
    world = World()
    world.handlers.pod_updated(pod(A), pod(A, version="2", ready=True))
    world.handlers.pod_updated(pod(B), pod(B, version="2", ready=True))
    assert await world.woken() == ["a", "b"]
    assert "ns/b" in world.queue
    assert "ns/a" not in world.queue
