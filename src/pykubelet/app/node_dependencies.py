"""What the parts of a node depend on: settings, client, runtime, clock, machine, trail and recorder."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import EventSource, ObjectReference
from pykubelet.api.names import dns1123_subdomain_errors
from pykubelet.app.holders import NODE_LOCK, folder_taken
from pykubelet.app.program import make_private_folder
from pykubelet.app.runtimes import RuntimeParts
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.client.interface import Client
from pykubelet.client.recorder import AnnotatingRecorder, LogRecorder, Recorder
from pykubelet.kubelet.eviction.pressure_monitor import LinuxSignals, SignalReader
from pykubelet.kubelet.eviction.thresholds import Threshold, kept_free, parse_thresholds
from pykubelet.kubelet.explain.trail import PodTrails, TrailEventRecorder
from pykubelet.kubelet.logs.log_directory import LogDirectory
from pykubelet.kubelet.nodestatus.machine import LinuxMachine, MachineInfo, MachineInfoReader
from pykubelet.kubelet.nodestatus.node_status import node_reference
from pykubelet.kubelet.nodestatus.setters import NodeStatusSettings
from pykubelet.kubelet.volumemanager.filesystem import Mounter, SystemMounter
from pykubelet.runtimes.folder_lock import FolderInUse, FolderLock

COMPONENT = "kubelet"
"""The component of events; tools search for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDependencies:
    """The dependencies that many parts of a node share."""

    settings: NodeSettings
    about: NodeStatusSettings
    client: Client | None
    runtime: RuntimeParts
    clock: Clock
    machine: MachineInfoReader
    machine_now: MachineInfo
    mounter: Mounter
    signals: SignalReader
    thresholds: tuple[Threshold, ...]
    trail: PodTrails
    recorder: AnnotatingRecorder
    event_writer: Recorder | None
    logs: LogDirectory

    @property
    def name(self) -> str:
        return self.settings.node_name

    @property
    def reference(self) -> ObjectReference:
        """The involved object of events about the node."""
        return node_reference(self.name)

    @classmethod
    async def of(
        cls,
        settings: NodeSettings,
        *,
        client: Client | None,
        runtime: RuntimeParts,
        clock: Clock,
        machine: MachineInfoReader | None = None,
        mounter: Mounter | None = None,
        signals: SignalReader | None = None,
    ) -> Self:
        """The dependencies of a node, by default on this machine; CannotStart for invalid settings."""
        name, root = settings.node_name, settings.root_dir
        check_name(name)
        make_root(settings)
        try:
            thresholds = parse_thresholds(settings.eviction_hard)
        except ValueError as error:
            raise CannotStart(str(error)) from error
        facts = machine or LinuxMachine(name=name, data_dir=root)
        about = NodeStatusSettings(
            name=name,
            hostname=name,
            port=settings.port,
            ips=(settings.address,) if settings.address else (),
            max_pods=settings.max_pods,
            kept_free=kept_free(thresholds),
            pod_cidr=settings.node_pod_cidr,
            runtime_version=f"{runtime.name}://{runtime.version}",
        )
        trail, writer = PodTrails(clock=clock), _event_writer(client, name, clock)
        return cls(
            settings=settings,
            about=about,
            client=client,
            runtime=runtime,
            clock=clock,
            machine=facts,
            machine_now=await asyncio.to_thread(facts.read),
            mounter=mounter or SystemMounter(),
            signals=signals or LinuxSignals(data_dir=root),
            thresholds=thresholds,
            trail=trail,
            recorder=TrailEventRecorder(writer or LogRecorder(), trail),
            event_writer=writer,
            logs=LogDirectory(root / "logs/pods", links=root / "logs/containers"),
        )


def check_name(name: str) -> None:
    """CannotStart if a node cannot have this name."""
    if errors := dns1123_subdomain_errors(name):
        raise CannotStart(f'the node cannot be called "{name}", choose another name: {errors[0]}')


def make_root(settings: NodeSettings) -> None:
    """Create the node's private root directory; CannotStart if that fails."""
    make_private_folder(settings.root_dir, 0o750)


@contextmanager
def locked_root(settings: NodeSettings) -> Iterator[None]:
    """Create the root directory and lock it while the context lasts; CannotStart if that fails."""
    make_root(settings)
    lock = FolderLock(settings.root_dir / NODE_LOCK)
    try:
        lock.acquire()
    except FolderInUse as error:
        raise CannotStart(folder_taken(settings.root_dir, error)) from error
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def _event_writer(client: Client | None, node_name: str, clock: Clock) -> Recorder | None:
    if client is None:
        return None
    return Recorder(sink=client, source=EventSource(component=COMPONENT, host=node_name), clock=clock)
