"""What whoever started a cluster sees of it: where it is, and its pods as they change."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pykubelet.aio.beside import beside
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import Lines
from pykubelet.api import resources
from pykubelet.api.typed import as_documents
from pykubelet.api.wire import Document
from pykubelet.kube.reflector import ListerWatcher, Reflector

PAUSE_SECONDS = 0.2
"""Nobody reads faster, and a crowd of changes is one picture."""


@dataclass(frozen=True, slots=True)
class Started:
    """A cluster that answers."""

    url: str
    kubeconfig: Path


class View(Protocol):
    """Shows a cluster to a person."""

    @property
    def lines(self) -> Lines:
        """Where lines that are no part of the picture go, such as logs."""

    def started(self, started: Started) -> None:
        """It answers now."""

    def pods(self, pods: Collection[Document]) -> None:
        """These are its pods now."""


class PodBoard:
    """The pods of a cluster, told to a view when they have changed, and not too often. Sink."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._pods: dict[tuple[str, str], Document] = {}
        self._changed = asyncio.Event()

    async def run(self, client: ListerWatcher, clock: Clock) -> None:
        """Follow the pods until cancelled."""
        kind = as_documents(resources.PODS)
        reflector: Reflector[Document] = Reflector(client=client, kind=kind, sink=self, clock=clock)
        async with beside(reflector.run(asyncio.Event()), "pods of the view"):
            while True:
                await self._changed.wait()
                self._changed.clear()
                self._view.pods(self._pods.values())
                await asyncio.sleep(PAUSE_SECONDS)

    def added(self, pod: Document) -> None:
        self._pods[_key(pod)] = pod
        self._changed.set()

    modified = added

    def deleted(self, pod: Document) -> None:
        self._pods.pop(_key(pod), None)
        self._changed.set()

    def synced(self) -> None:
        self._changed.set()


def _key(pod: Document) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
