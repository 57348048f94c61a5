"""What a node stands on: everything outside of it, and who it is."""

import asyncio
from dataclasses import dataclass
from typing import Self

from pykubelet.agent import heartbeat
from pykubelet.agent.heartbeat import LinuxMachine, Machine, MachineFacts, node_reference
from pykubelet.agent.volumes.mounting import Mounter, SystemMounter
from pykubelet.aio.clock import Clock
from pykubelet.api.generated.core import EventSource, ObjectReference
from pykubelet.app.runtimes import RuntimeParts
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.kube.client import Client
from pykubelet.kube.log_recorder import LogRecorder
from pykubelet.kube.recorder import EventRecorder, Recorder
from pykubelet.runtime.log_directory import LogDirectory

COMPONENT = "kubelet"
"""Who events come from: tools look for this word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Handed to every part that needs something of it."""

    settings: NodeSettings
    about: heartbeat.NodeSettings
    client: Client | None
    runtime: RuntimeParts
    clock: Clock
    machine: MachineFacts
    machine_now: Machine
    mounter: Mounter
    recorder: EventRecorder
    logs: LogDirectory

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.settings.node_name

    @property
    def reference(self) -> ObjectReference:
        """Whom events about the node are about."""
        return node_reference(self.name)

    @classmethod
    async def of(
        cls,
        settings: NodeSettings,
        *,
        client: Client | None,
        runtime: RuntimeParts,
        clock: Clock,
        machine: MachineFacts | None = None,
        mounter: Mounter | None = None,
    ) -> Self:
        """Ground for a node, on this machine unless told otherwise; CannotStart if its folder cannot be made."""
        name, root = settings.node_name, settings.root_dir
        try:
            root.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise CannotStart(f"{root}: {error.strerror}") from error
        facts = machine or LinuxMachine(name=name, data_dir=root)
        about = heartbeat.NodeSettings(
            name=name,
            hostname=name,
            port=settings.port,
            max_pods=settings.max_pods,
            runtime_version=f"{runtime.name}://{runtime.version}",
        )
        return cls(
            settings=settings,
            about=about,
            client=client,
            runtime=runtime,
            clock=clock,
            machine=facts,
            machine_now=await asyncio.to_thread(facts.read),
            mounter=mounter or SystemMounter(),
            recorder=_recorder(client, name, clock),
            logs=LogDirectory(root / "logs/pods", links=root / "logs/containers"),
        )


def _recorder(client: Client | None, node_name: str, clock: Clock) -> EventRecorder:
    if client is None:
        return LogRecorder()
    return Recorder(sink=client, source=EventSource(component=COMPONENT, host=node_name), clock=clock)
