"""Each invariant of the simulation can fail: a wrong change, answer, list, watch event or container is reported."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.api.generated.core import Pod
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.schema import PODS
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.storage.interfaces import StoreChange, StoreEntry, StoreKey
from pykubelet.client.interface import Listing, WatchEvent
from simulation.invariants import ServerChecks
from simulation.machine import ContainerRecord, Containers
from simulation.object_rules import watch_objects
from simulation.trace import Trace

KEY = StoreKey("pods", "default", "web")


class Scene:
    """A trace with all checks, and short ways to let things happen."""

    def __init__(self) -> None:
        self.trace = Trace(1)
        self.checks = ServerChecks(self.trace)
        self.containers = Containers(self.trace, lambda _: False)
        watch_objects(self.checks, self.containers)
        self._revision = 1

    def commit(self, document: Document | None, key: StoreKey = KEY, revision: int | None = None) -> None:
        """The store reports a change."""
        self._revision = revision or self._revision + 1
        after = None if document is None else StoreEntry(key, self._revision, encode(document))
        self.checks._changed(StoreChange(self._revision, key, None, after))

    def run(self, id: str = "c1", uid: str = "u1", exit_code: int | None = None) -> None:
        """A container is created and started; it ends if it has an exit code."""
        self.containers.created(ContainerRecord(id, uid, ("default", "web"), "main", 0, "node-1"))
        self.containers.started(id)
        if exit_code is not None:
            self.containers.ended(id, exit_code)


def pod(uid: str = "u1", phase: str = "Running", **status: Any) -> Document:
    """A pod with a status."""
    meta = {"name": "web", "namespace": "default", "uid": uid, "generation": 1}
    node = {"nodeName": "node-1", "terminationGracePeriodSeconds": 5, "containers": [{"name": "main"}]}
    return {"metadata": meta, "spec": node, "status": {"phase": phase, **status}}


def shown(exit_code: int, restarts: int = 0) -> list[Document]:
    """The statuses of a container that has ended."""
    ended = {"terminated": {"exitCode": exit_code, "containerID": "sim://c1"}}
    return [{"name": "main", "restartCount": restarts, "state": ended, "containerID": "sim://c1"}]


def ready(value: str, since: str) -> list[Document]:
    return [{"type": "Ready", "status": value, "lastTransitionTime": since}]


def _changes(*documents: Document | None, exit_code: int | None = 3) -> Callable[[Scene], None]:
    def happen(scene: Scene) -> None:
        scene.run(exit_code=exit_code)
        for document in documents:
            scene.commit(document)

    return happen


def _watch(*events: tuple[str, int]) -> Callable[[Scene], None]:
    def happen(scene: Scene) -> None:
        check = scene.checks.watch(PODS, {"resource_version": "1"})
        for phase in ("Pending", "Running", "Succeeded"):
            scene.commit(pod(phase=phase))
        for kind, revision in events:
            seen: Any = Pod(metadata=ObjectMeta(name="web", namespace="default"))
            check.delivered(WatchEvent(kind, seen, str(revision)))  # type: ignore[arg-type]

    return happen


def _second_container(uid: str) -> Callable[[Scene], None]:
    def happen(scene: Scene) -> None:
        scene.run()
        scene.run("c2", uid)

    return happen


def _removed_too_early(scene: Scene) -> None:
    scene.commit(pod())
    scene.run(exit_code=3)
    scene.containers.removed("c1")


def _backwards(scene: Scene) -> None:
    scene.commit(pod(), revision=5)
    scene.commit(pod(phase="Pending"), revision=4)


def _lost(scene: Scene) -> None:
    scene.checks.answered(PODS, {"metadata": {"resourceVersion": "7"}})


def _short_list(scene: Scene) -> None:
    scene.commit(pod(), revision=2)
    scene.checks.listed(PODS, Listing((), "2"), {})


BROKEN: dict[str, tuple[Callable[[Scene], None], str]] = {
    "phase": (_changes(pod(phase="Failed"), pod(phase="Running")), "was Failed and is Running"),
    "exit code": (_changes(pod(containerStatuses=shown(4))), "shows exit code 4, the container has 3"),
    "unknown": (_changes(pod(containerStatuses=shown(4)), exit_code=None), "shows exit code 4"),
    "restarts": (
        _changes(pod(containerStatuses=shown(3, 2)), pod(containerStatuses=shown(3, 1))),
        "restart count falls from 2 to 1",
    ),
    "no exit": (_changes(pod(), None), "is removed without exit code 3 of main"),
    "still runs": (_changes(pod(), None, exit_code=None), "is removed while main runs"),
    "condition": (
        _changes(pod(conditions=ready("True", "1")), pod(conditions=ready("True", "2"))),
        "condition Ready moves",
    ),
    "uid": (_changes(pod(), pod(uid="u2")), "changes its uid"),
    "generation": (_changes(pod(), pod(observedGeneration=2)), "ahead of the generation"),
    "container twice": (_second_container("u1"), "starts while"),
    "pod twice": (_second_container("u2"), "of an earlier pod runs"),
    "removed early": (_removed_too_early, "exit code 3 of"),
    "revision": (_backwards, "revision 4 comes after 5"),
    "lost write": (_lost, "is ahead of"),
    "short list": (_short_list, "differ"),
    "watch gap": (_watch(("ADDED", 2), ("MODIFIED", 4)), "misses"),
    "watch type": (_watch(("MODIFIED", 2)), "sends MODIFIED"),
    "watch back": (_watch(("ADDED", 2), ("MODIFIED", 3), ("MODIFIED", 3)), "back to 3"),
    "bookmark": (_watch(("BOOKMARK", 4)), "misses"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_broken_invariant_is_reported(name: str) -> None:
    happen, message = BROKEN[name]
    scene = Scene()
    happen(scene)
    assert message in str(scene.trace.violation)


async def test_regular_life_breaks_nothing() -> None:
    """The same events in order, with true statuses."""
    scene = Scene()
    _watch(("ADDED", 2), ("MODIFIED", 3), ("BOOKMARK", 3), ("MODIFIED", 4), ("BOOKMARK", 9))(scene)
    await asyncio.sleep(1)
    scene.run(exit_code=3)
    scene.commit(pod(phase="Succeeded", containerStatuses=shown(3)))
    scene.containers.removed("c1")
    scene.commit(None)
    assert scene.trace.violation is None
