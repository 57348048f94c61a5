"""A node that reports its status and lease to MemoryApi, on virtual time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pykubelet.api import schema
from pykubelet.api.errors import ApiError
from pykubelet.api.generated.core import Node, NodeCondition, ObjectReference
from pykubelet.api.scheme import TypedKind
from pykubelet.api.serializer import Document, from_document
from pykubelet.client.interface import Client
from pykubelet.kubelet.nodestatus.conditions import NodePressures, NodeProblems
from pykubelet.kubelet.nodestatus.lease import NodeLease
from pykubelet.kubelet.nodestatus.machine import MachineInfo
from pykubelet.kubelet.nodestatus.node_status import NodeStatusReporter, NodeStatusSources
from pykubelet.kubelet.nodestatus.setters import NodeStatusSettings
from pykubelet.runtimes.protocol import Image
from pykubelet.testing.memory_api import MemoryApi
from pykubelet.testing.virtual_time import VirtualClock

T = TypeVar("T")

MACHINE = MachineInfo(
    cores=2,
    memory_bytes=10 * 2**30,
    storage_bytes=100 * 2**30,
    machine_id="machine",
    system_uuid="system",
    boot_id="boot",
    kernel_version="6.1",
    os_image="Debian",
    architecture="amd64",
    ip="10.0.0.1",
)
SETTINGS = NodeStatusSettings(name="node-1", hostname="host-1")


class FailingApi(MemoryApi):
    """An API whose next calls of a verb fail as scripted, or hang."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.failures: dict[str, list[ApiError | None]] = {}
        self.hangs = False

    async def get(self, kind: TypedKind[T], name: str, **where: Any) -> T:
        await self._perhaps_fail("get", kind, name)
        return await super().get(kind, name, **where)

    async def create(self, kind: TypedKind[T], body: T, **where: Any) -> T:
        await self._perhaps_fail("create", kind, "")
        return await super().create(kind, body, **where)

    async def patch(self, kind: TypedKind[T], name: str, body: Any, **where: Any) -> T:
        await self._perhaps_fail("patch", kind, name)
        return await super().patch(kind, name, body, **where)

    async def _perhaps_fail(self, verb: str, kind: TypedKind[T], name: str) -> None:
        script = self.failures.get(verb, [])
        error = script.pop(0) if script else None
        if error is not None or self.hangs:
            self._record(verb, kind.resource, "", name)
        if self.hangs:
            await asyncio.sleep(100_000)
        if error is not None:
            raise error


class NodeWorld:
    """The collaborators of a status reporter and a lease: machine, health, images, API and event recorder."""

    def __init__(self, settings: NodeStatusSettings = SETTINGS, client: Client | None = None) -> None:
        self.clock = VirtualClock()
        self.api = FailingApi(self.clock)
        self.facts = MACHINE
        self.wrong = NodeProblems()
        self.short = NodePressures()
        self.in_use: tuple[str, ...] | None = None
        self.pulled: Sequence[Image] = ()
        self.seen: Node | None = None
        self.events: list[tuple[str, str, str]] = []
        self.first_relist = asyncio.Event()
        self.first_relist.set()
        played: Any = self
        inputs = NodeStatusSources(
            machine=self, health=played, images=played, known_node=lambda: self.seen, first_relist=self.first_relist
        )
        self.reporter = NodeStatusReporter(
            settings=settings,
            client=client or self.api,
            inputs=inputs,
            recorder=self,
            clock=self.clock,
            rand=lambda: 0.5,
        )
        self.lease = NodeLease(node_name=settings.name, client=client or self.api, clock=self.clock, rand=lambda: 0.0)

    def read(self) -> MachineInfo:
        return self.facts

    def problems(self) -> NodeProblems:
        return self.wrong

    def pressures(self) -> NodePressures:
        return self.short

    def volumes_in_use(self) -> tuple[str, ...] | None:
        return self.in_use

    async def images(self) -> Sequence[Image]:
        return self.pulled

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        assert (involved.kind, involved.name, involved.uid) == ("Node", "node-1", "node-1")
        self.events.append((event_type, reason, message))

    def calls(self, resource: str = "nodes") -> list[str]:
        """The verbs of the requests for a resource since the last call."""
        verbs = [call.verb for call in self.api.calls if call.resource == resource]
        self.api.calls = []
        return verbs

    def reasons(self) -> list[str]:
        """The reasons of the events since the last call."""
        reasons, self.events = [reason for _, reason, _ in self.events], []
        return reasons

    def document(self) -> Document:
        return self.api.documents(schema.NODES)[0]

    def shown(self) -> Node:
        """The node in the API."""
        return from_document(self.document(), Node)

    def condition(self, kind: str) -> NodeCondition:
        return next(one for one in self.shown().status.conditions if one.type == kind)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Event]:
        """Runs the reporter; yields the event that is set once it is ready."""
        async with asyncio.TaskGroup() as group:
            ready = asyncio.Event()
            task = group.create_task(self.reporter.run(ready))
            yield ready
            task.cancel()
