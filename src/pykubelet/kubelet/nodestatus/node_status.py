"""Registers the node and keeps what the API shows of it true.

In: facts of the machine, what is wrong with the node, its images; looked at every ten seconds, at once after `poke`, and
ten times a second until the node is ready for the first time. Out: patches of the node's status where anything but
heartbeats changed, or nothing was sent for about five minutes; and events, once a patch has arrived.

Upstream: pkg/kubelet/kubelet_node_status.go, fastStatusUpdateOnce in pkg/kubelet/kubelet.go

This node's own object, as the API server shows it: what the node has and where it is.

In: the watch of the one node. Out: the newest that was seen, or, before anything was, what the node would say of
itself. Upstream: nodeLister, GetNode and getNodeAnyWay in pkg/kubelet/kubelet.go and kubelet_getters.go.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pykubelet.aio.backoff import Backoff, Random, Retries, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Node, ObjectReference
from pykubelet.api.scheme import NODES
from pykubelet.client.interface import Selection
from pykubelet.client.recorder import NORMAL, EventRecorder
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.kubelet.nodestatus.conditions import READY, find_condition, readiness_errors
from pykubelet.kubelet.nodestatus.health import NodeHealth
from pykubelet.kubelet.nodestatus.machine import MachineInfoReader
from pykubelet.kubelet.nodestatus.register import (
    NodeClient,
    is_report_due,
    newer_node,
    node_changed,
    node_patch,
    report_delay_seconds,
    try_to_register,
)
from pykubelet.kubelet.nodestatus.setters import (
    NodeEvent,
    NodeStatusInputs,
    NodeStatusSettings,
    initial_node,
    updated_node,
)
from pykubelet.runtimes.protocol import Image, Images, RuntimeFailure


class OwnNode:
    """What is known of one node; a Sink of its own reflector. Without a client it is what it says of itself."""

    def __init__(self, *, initial: Node, client: ListerWatcher | None, clock: Clock) -> None:
        self._initial, self._shown = initial, None if client is not None else initial
        self.is_known = asyncio.Event()
        """Set once the API server knows the node, at once if there is none."""
        if client is None:
            self.is_known.set()
        name = Selection(fields=f"metadata.name={initial.metadata.name}")
        self._reflector = (
            Reflector(client=client, kind=NODES, sink=self, clock=clock, selection=name) if client is not None else None
        )

    def shown(self) -> Node | None:
        """The node as the API server last showed it."""
        return self._shown

    def node(self, name: str) -> Node:
        """The same; NotFound if it was not seen yet, or is another one."""
        if self._shown is None or self._shown.metadata.name != name:
            raise NotFound(f'node "{name}" not found')
        return self._shown

    def allocatable(self) -> Mapping[str, str]:
        """What the node has for pods, by resource."""
        return self.anyway().status.allocatable

    def host_ips(self) -> tuple[str, ...]:
        """Its addresses, the preferred one first."""
        addresses = self.anyway().status.addresses
        return tuple(one.address for one in addresses if one.type == "InternalIP")[:2]

    def anyway(self) -> Node:
        """The node as it was last seen, or, before that, as it would say itself."""
        return self._shown if self._shown is not None else self._initial

    def added(self, node: Node, /) -> None:
        self._shown = node
        self.is_known.set()

    def modified(self, node: Node, /) -> None:
        self._shown = node

    def deleted(self, _: Node, /) -> None:
        self._shown = None

    def synced(self) -> None:
        """Nothing depends on it: a node that is not there is registered by somebody else."""

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the node until cancelled; returns at once without a client."""
        if self._reflector is None:
            ready.set()
            return
        await self._reflector.run(ready)


log = get_logger(__name__)

PERIOD = Backoff(first_seconds=10, limit_seconds=10, jitter=0.04)
REGISTER = Backoff(first_seconds=0.1, limit_seconds=7)
TRIES = 5
TRY_SECONDS = 10.0
"""One try must not outlast the period, whatever the server does."""
FAST_SECONDS = 0.1
FAST_PHASE_SECONDS = 120.0
FIRST_RELIST_SECONDS = 10.0
"""So long the first report waits for a look at the runtime: a node started anew is not broken for not having looked yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatusSources:
    """Where a reporter gets what it reports. `known_node` is the newest that a watch has seen, if there is one.

    `first_relist`, if given, is set once the runtime has been looked at.
    """

    machine: MachineInfoReader
    health: NodeHealth
    images: Images | None = None
    known_node: Callable[[], Node | None] = lambda: None
    first_relist: asyncio.Event | None = None


class NodeStatusReporter:
    """Speaks for one node."""

    def __init__(
        self,
        *,
        settings: NodeStatusSettings,
        client: NodeClient,
        inputs: NodeStatusSources,
        recorder: EventRecorder,
        clock: Clock,
        rand: Random = system_random,
    ) -> None:
        self._settings, self._client, self._inputs = settings, client, inputs
        self._recorder, self._clock, self._rand = recorder, clock, rand
        self._reference = node_reference(settings.name)
        self._node: Node | None = None
        self._reported_at: float | None = None
        self._delay_seconds = 0.0
        self._has_told_reboot = self._was_unschedulable = False
        self._wanted_now = asyncio.Event()

    @property
    def node(self) -> Node | None:
        """The node as the API server last answered; None before it is registered."""
        return self._node

    def poke(self) -> None:
        """Something has changed that the status should show: look at once."""
        self._wanted_now.set()

    async def run(self, ready: asyncio.Event) -> None:
        """Register, then report until cancelled; `ready` is set when the node is registered."""
        self._recorder.event(self._reference, NORMAL, "Starting", "Starting kubelet.")
        fast_until = self._clock.monotonic() + FAST_PHASE_SECONDS
        await self.register()
        ready.set()
        if self._inputs.first_relist is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(FIRST_RELIST_SECONDS):
                    await self._inputs.first_relist.wait()
        while True:
            await self.report()
            await self._pause(fast_until)

    async def register(self) -> None:
        """Return when the API server knows the node."""
        retries = Retries(REGISTER, self._rand)
        while True:
            wanted, events = initial_node(self._settings, await self._situation())
            self._node = await try_to_register(self._client, wanted)
            if self._node is not None:
                log.info("node registered", node=self._settings.name)
                self._tell(events)
                return
            await asyncio.sleep(retries.next_delay_seconds())

    async def report(self) -> bool:
        """Send the status if there is a reason to; whether all is said now."""
        for attempt in range(TRIES):
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    await self._try_to_report(is_first=attempt == 0)
            except TimeoutError:
                log.warning("node status not sent", node=self._settings.name, cause="no answer in time")
            except ApiError as error:
                log.warning("node status not sent", node=self._settings.name, cause=str(error))
            else:
                return True
        log.error("node status given up until the next period", node=self._settings.name, tries=TRIES)
        return False

    async def _try_to_report(self, *, is_first: bool) -> None:
        known = newer_node(self._inputs.known_node(), self._node) if is_first else None
        original = known if known is not None else await self._client.get(NODES, self._settings.name)
        node, events = updated_node(original, self._settings, await self._situation())
        has_changed = node_changed(original, node)
        now = self._clock.monotonic()
        since_seconds = None if self._reported_at is None else now - self._reported_at
        if has_changed or is_report_due(since_seconds, self._delay_seconds):
            patch = node_patch(original, node)
            self._node = await self._client.patch(NODES, self._settings.name, patch, subresource="status")
            is_off_beat = has_changed or self._reported_at is None
            self._delay_seconds = report_delay_seconds(self._rand()) if is_off_beat else 0.0
            self._reported_at = self._clock.monotonic()
        else:
            self._node = original
        self._tell(events)
        self._tell_schedulable(original)

    async def _situation(self) -> NodeStatusInputs:
        health = self._inputs.health
        return NodeStatusInputs(
            now=self._clock.now(),
            machine=await asyncio.to_thread(self._inputs.machine.read),
            problems=health.problems(),
            pressures=health.pressures(),
            images=await self._images(),
            volumes_in_use=health.volumes_in_use(),
        )

    async def _images(self) -> Sequence[Image]:
        if self._inputs.images is None:
            return ()
        try:
            return await self._inputs.images.images()
        except RuntimeFailure as failure:
            log.warning("images not listed", cause=failure.message)
            return ()

    async def _pause(self, fast_until: float) -> None:
        """Until the next period, a poke, or the moment the node could be ready for the first time."""
        ends_at = self._clock.monotonic() + PERIOD.delay_seconds(1, self._rand)
        while (left_seconds := ends_at - self._clock.monotonic()) > 0:
            is_fast = self._clock.monotonic() < fast_until and not self._shows_ready()
            try:
                async with asyncio.timeout(min(left_seconds, FAST_SECONDS) if is_fast else left_seconds):
                    await self._wanted_now.wait()
            except TimeoutError:
                if is_fast and not self._errors():
                    return
            else:
                self._wanted_now.clear()
                return

    def _errors(self) -> tuple[str, ...]:
        capacity = self._node.status.capacity if self._node is not None else ()
        return readiness_errors(self._inputs.health.problems(), capacity)

    def _shows_ready(self) -> bool:
        shown = find_condition(self._node.status.conditions, READY) if self._node is not None else None
        return shown is not None and shown.status == "True"

    def _tell(self, events: Sequence[NodeEvent]) -> None:
        for event in events:
            if event.reason == "Rebooted":
                # The old boot id may be read again before our patch is seen.
                if self._has_told_reboot:
                    continue
                self._has_told_reboot = True
            self._recorder.event(self._reference, event.type, event.reason, event.message)

    def _tell_schedulable(self, node: Node) -> None:
        if node.spec.unschedulable != self._was_unschedulable:
            self._was_unschedulable = node.spec.unschedulable
            reason = "NodeNotSchedulable" if self._was_unschedulable else "NodeSchedulable"
            message = f"Node {self._settings.name} status is now: {reason}"
            self._recorder.event(self._reference, NORMAL, reason, message)


def node_reference(name: str) -> ObjectReference:
    """Whom events about the node are about; its name stands for its UID, which nobody knows before it is registered."""
    return ObjectReference(kind="Node", name=name, uid=name)
