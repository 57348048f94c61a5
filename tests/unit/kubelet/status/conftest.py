"""A status manager between a pod manager and an API server in memory."""

from collections.abc import Callable

import pytest

from pykubelet.api import schema
from pykubelet.api.generated.core import Pod, PodStatus
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import Document, from_document, to_document
from pykubelet.client.interface import Client
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.testing.build import pod
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock


class World:
    """One node whose surroundings a test can set and inspect."""

    def __init__(self, wrap: Callable[[MemoryApi], Client] = lambda api: api) -> None:
        self.clock = VirtualClock()
        self.api = MemoryApi(self.clock)
        self.pods = PodManager()
        self.could_run = False
        self.reclaimed = True
        self.forgotten: list[PodUid] = []
        self.refused: list[str] = []
        self.waits: list[float] = []
        self.unsent: list[str] = []
        self.manager = StatusManager(
            client=wrap(self.api), pods=self.pods, safety=self, clock=self.clock, observer=self
        )

    # Dependencies and observer of the manager

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return self.could_run

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return self.reclaimed

    def status_sent(self, _: Pod, waited_seconds: float, /) -> None:
        self.waits.append(waited_seconds)

    def status_not_sent(self, _: PodUid, why: str, /) -> None:
        self.unsent.append(why)

    def pod_forgotten(self, uid: PodUid, /) -> None:
        self.forgotten.append(uid)

    def status_refused(self, _: Pod, why: str, /) -> None:
        self.refused.append(why)

    # Actions of a test

    def add(self, known: Pod | None = None) -> Pod:
        """Stores a pod in the API and in the pod manager."""
        seen = self.store(known or pod())
        self.pods.update_pod(seen)
        return seen

    def store(self, known: Pod) -> Pod:
        """Stores a pod in the API only."""
        return from_document(self.api.put(schema.PODS, to_document(known)), Pod)

    def watch(self) -> None:
        """Copies all pods of the API to the pod manager."""
        for document in self.api.documents(schema.PODS):
            self.pods.update_pod(from_document(document, Pod))

    def live(self, name: str) -> Document | None:
        """The status of a pod in the API."""
        for document in self.api.documents(schema.PODS):
            if document["metadata"]["name"] == name:
                status: Document = document.get("status", {})
                return status
        return None

    def calls(self) -> list[str]:
        """The verbs of the requests since the last call."""
        verbs, self.api.calls = [call.verb for call in self.api.calls], []
        return verbs


@pytest.fixture
def make_world() -> type[World]:
    return World


@pytest.fixture
def world() -> World:
    return World()
