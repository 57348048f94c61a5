"""Registers the node and keeps its status, health and own Node object current.

`NodeHealth` holds what the sync loop, workers, admission and node status ask about the node. `OwnNode` is the Node
object as the API server shows it. `NodeStatusReporter` builds the status every ten seconds, at once after `poke`, and
ten times a second until the node is Ready for the first time; it sends a patch if anything but heartbeats changed, or
nothing was sent for about five minutes, and records events after the patch succeeded.

Upstream: pkg/kubelet/kubelet_node_status.go, pkg/kubelet/kubelet_getters.go, pkg/kubelet/runtime.go
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from pykubelet.aio.backoff import Backoff, Random, Retries, system_random
from pykubelet.aio.clock import Clock
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.core import Node, ObjectReference
from pykubelet.api.scheme import NODES
from pykubelet.client.interface import Client, Selection
from pykubelet.client.recorder import NORMAL, EventRecorder
from pykubelet.client.reflector import ListerWatcher, Reflector
from pykubelet.kubelet.config.config import SourceProblemReporter, SourcesReady
from pykubelet.kubelet.eviction.thresholds import DISK_PRESSURE, MEMORY_PRESSURE, PID_PRESSURE
from pykubelet.kubelet.nodestatus.conditions import READY, NodePressures, NodeProblems, find_condition, readiness_errors
from pykubelet.kubelet.nodestatus.machine import MachineInfoReader
from pykubelet.kubelet.nodestatus.register import (
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
from pykubelet.kubelet.pleg.pleg import PodLifecycleEventGenerator
from pykubelet.runtimes.protocol import Image, Images, RuntimeFailure

_SHUTTING_DOWN = "node is shutting down"
_NOT_ADMITTED = "Pod was rejected as the node is shutting down."


class RuntimeConditions(Protocol):
    """The conditions that a runtime reports of itself; an empty text means that all is well."""

    def runtime_error(self) -> str:
        """Why it cannot run containers."""

    def network_error(self) -> str:
        """Why pods get no network."""


class NodeHealth:
    """The health of one node."""

    def __init__(
        self,
        *,
        pleg: PodLifecycleEventGenerator,
        sources: SourcesReady,
        problems: SourceProblemReporter,
        runtime: RuntimeConditions | None = None,
    ) -> None:
        self._pleg, self._sources, self._source_problems, self._runtime = pleg, sources, problems, runtime
        self._pressures = NodePressures()
        self._is_shutting_down = False
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call this, without waiting, when something changes that the node status should show at once."""
        self._listeners.append(listener)

    def note_pressures(self, conditions: Collection[str]) -> None:
        """Set the pressure conditions that hold from now on."""
        self._pressures = NodePressures(
            memory=MEMORY_PRESSURE in conditions, disk=DISK_PRESSURE in conditions, pid=PID_PRESSURE in conditions
        )
        self._notify()

    def note_shutdown(self) -> None:
        """Mark the node as shutting down: it admits no pods and is not ready."""
        self._is_shutting_down = True
        self._notify()

    def runtime_error(self) -> str:
        """Why the runtime cannot be used; empty if it can."""
        if error := self._pleg.health_error():
            return f"PLEG is not healthy: {error}"
        return self._runtime.runtime_error() if self._runtime is not None else ""

    def network_error(self) -> str:
        """Why pods get no network; empty if they do."""
        return self._runtime.network_error() if self._runtime is not None else ""

    def all_sources_ready(self) -> bool:
        """Whether every source has delivered its pods, so that pods no source names may be removed."""
        return self._sources.all_ready()

    def problems(self) -> NodeProblems:
        """What keeps the node from being ready."""
        runtime, network = self.runtime_error(), self.network_error()
        return NodeProblems(
            runtime=(runtime,) if runtime else (),
            network=(network,) if network else (),
            shutdown=(_SHUTTING_DOWN,) if self._is_shutting_down else (),
            warning=self._source_problems.warning(),
        )

    def pressures(self) -> NodePressures:
        return self._pressures

    def pressure_conditions(self) -> tuple[str, ...]:
        """The types of the pressure conditions that hold."""
        short = self._pressures
        named = {MEMORY_PRESSURE: short.memory, DISK_PRESSURE: short.disk, PID_PRESSURE: short.pid}
        return tuple(name for name, holds in named.items() if holds)

    def shutdown_message(self) -> str:
        """Why no pod is admitted any more; empty while pods are."""
        return _NOT_ADMITTED if self._is_shutting_down else ""

    def volumes_in_use(self) -> tuple[str, ...]:
        """Volumes that must not be detached: none, because this node attaches none."""
        return ()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()


class OwnNode:
    """The Node object of this node, fed by its own reflector; without a client the initial one."""

    def __init__(self, *, initial: Node, client: ListerWatcher | None, clock: Clock) -> None:
        self._initial, self._shown = initial, None if client is not None else initial
        self.is_known = asyncio.Event()
        """Set once the API server has the node; at once without an API server."""
        if client is None:
            self.is_known.set()
        name = Selection(fields=f"metadata.name={initial.metadata.name}")
        self._reflector = (
            Reflector(client=client, kind=NODES, sink=self, clock=clock, selection=name) if client is not None else None
        )

    def shown(self) -> Node | None:
        """The node as the API server last showed it; None before that."""
        return self._shown

    def node(self, name: str) -> Node:
        """The node of this name; NotFound if it was not seen yet, or has another name."""
        if self._shown is None or self._shown.metadata.name != name:
            raise NotFound(f'node "{name}" not found')
        return self._shown

    def allocatable(self) -> Mapping[str, str]:
        return self.current_or_initial().status.allocatable

    def host_ips(self) -> tuple[str, ...]:
        """The node's addresses, the preferred one first."""
        addresses = self.current_or_initial().status.addresses
        return tuple(one.address for one in addresses if one.type == "InternalIP")[:2]

    def current_or_initial(self) -> Node:
        """The node as last shown, or its initial object; admission must not depend on the API server."""
        return self._shown if self._shown is not None else self._initial

    def added(self, node: Node, /) -> None:
        self._shown = node
        self.is_known.set()

    def modified(self, node: Node, /) -> None:
        self._shown = node

    def deleted(self, _: Node, /) -> None:
        self._shown = None

    def synced(self) -> None:
        """Ignored: registration creates a missing node."""

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
"""The timeout of one attempt, shorter than the period."""
FAST_SECONDS = 0.1
FAST_PHASE_SECONDS = 120.0
FIRST_RELIST_SECONDS = 10.0
"""How long the first report waits for a relist of the runtime, so that a restart does not report NotReady."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatusSources:
    """The inputs of the node status. `known_node` returns the newest object a watch has seen, if any.

    `first_relist`, if given, is set after the first relist of the runtime.
    """

    machine: MachineInfoReader
    health: NodeHealth
    images: Images | None = None
    known_node: Callable[[], Node | None] = lambda: None
    first_relist: asyncio.Event | None = None


class NodeStatusReporter:
    """Registers one node and reports its status."""

    def __init__(
        self,
        *,
        settings: NodeStatusSettings,
        client: Client,
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
        self._has_recorded_reboot = self._was_unschedulable = False
        self._wanted_now = asyncio.Event()

    @property
    def node(self) -> Node | None:
        """The node as the API server last answered; None before registration."""
        return self._node

    def poke(self) -> None:
        """Report at once, because something changed that the status should show."""
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
        """Retry until the API server has the node."""
        retries = Retries(REGISTER, self._rand)
        while True:
            wanted, events = initial_node(self._settings, await self._situation())
            self._node = await try_to_register(self._client, wanted)
            if self._node is not None:
                log.info("node registered", node=self._settings.name)
                self._record(events)
                return
            await asyncio.sleep(retries.next_delay_seconds())

    async def report(self) -> bool:
        """Send the status if necessary; return whether the API server has it."""
        for attempt in range(TRIES):
            try:
                async with asyncio.timeout(TRY_SECONDS):
                    await self._try_to_report(is_first=attempt == 0)
            except (ApiError, TimeoutError) as error:
                log.warning("node status not sent", node=self._settings.name, cause=str(error) or "no answer in time")
            else:
                return True
        log.error("node status not sent in this period", node=self._settings.name, tries=TRIES)
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
        self._record(events)
        self._record_schedulable(original)

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
        """Wait for the next period, a poke, or the moment the node may become ready for the first time."""
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

    def _record(self, events: Sequence[NodeEvent]) -> None:
        for event in events:
            if event.reason == "Rebooted":
                # The watch may show the old boot ID again before our patch.
                if self._has_recorded_reboot:
                    continue
                self._has_recorded_reboot = True
            self._recorder.event(self._reference, event.type, event.reason, event.message)

    def _record_schedulable(self, node: Node) -> None:
        if node.spec.unschedulable != self._was_unschedulable:
            self._was_unschedulable = node.spec.unschedulable
            reason = "NodeNotSchedulable" if self._was_unschedulable else "NodeSchedulable"
            message = f"Node {self._settings.name} status is now: {reason}"
            self._recorder.event(self._reference, NORMAL, reason, message)


def node_reference(name: str) -> ObjectReference:
    """The involved object of events about the node; its name stands in for the UID, as upstream."""
    return ObjectReference(kind="Node", name=name, uid=name)
