"""What a node can run its containers with; the only place that knows a runtime by name."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from pykubelet.agent.health import RuntimeState
from pykubelet.agent.heartbeat import LinuxMachine
from pykubelet.agent.probes import ProbeHttp, SimulatedDoors, SocketDoor, Sockets
from pykubelet.agent.probes.http_probe import HttpDoor as ProbeHttpDoor
from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import RandomIds
from pykubelet.app.settings import CannotStart, NodeSettings
from pykubelet.runtime.http_door import HttpDoor, InsecureHttp
from pykubelet.runtime.process.images import ProcessImages
from pykubelet.runtime.process.runtime import ProcessRuntime
from pykubelet.runtime.protocol import ChangeFeed, Commands, Images, LogWriter, Runtime, RuntimeFailure
from pykubelet.runtime.sim import SimHttp, SimImages, SimRuntime
from pykubelet.runtime.streams import Streams


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeParts:
    """A runtime with all it offers; what it lacks is None. `name` is what container ids begin with."""

    name: str
    version: str
    runtime: Runtime
    images: Images | None = None
    feed: ChangeFeed | None = None
    commands: Commands | None = None
    streams: Streams | None = None
    log_writer: LogWriter | None = None
    state: RuntimeState | None = None
    hook_http: HttpDoor = field(default_factory=InsecureHttp)
    probe_http: ProbeHttpDoor = field(default_factory=ProbeHttp)
    probe_sockets: SocketDoor = field(default_factory=Sockets)
    app_armor_error: str = ""
    """Why it enforces no AppArmor profiles, if it does not."""


@asynccontextmanager
async def open_runtime(settings: NodeSettings, *, clock: Clock) -> AsyncIterator[RuntimeParts]:
    """The runtime that the settings name, for as long as the context lasts; CannotStart if there is none."""
    opener = _OPENERS.get(settings.runtime)
    if opener is None:
        raise CannotStart(f"there is no runtime {settings.runtime!r}; there are: {', '.join(sorted(_OPENERS))}")
    async with opener(settings, clock) as parts:
        yield parts


def simulated(runtime: SimRuntime, images: SimImages | None = None) -> RuntimeParts:
    """Containers that only pretend, and everything around them that would go to the network."""
    doors = SimulatedDoors(runtime.health_at)
    return RuntimeParts(
        name="sim",
        version="1",
        runtime=runtime,
        images=images or SimImages(),
        feed=runtime,
        commands=runtime,
        hook_http=SimHttp(runtime),
        probe_http=doors,
        probe_sockets=doors,
    )


@asynccontextmanager
async def _sim(_: NodeSettings, clock: Clock) -> AsyncIterator[RuntimeParts]:
    yield simulated(SimRuntime(clock=clock))


@asynccontextmanager
async def _process(settings: NodeSettings, clock: Clock) -> AsyncIterator[RuntimeParts]:
    machine = await asyncio.to_thread(LinuxMachine(name=settings.node_name, data_dir=settings.root_dir).read)
    ips = (machine.ip or "127.0.0.1",)
    try:
        async with ProcessRuntime(root=settings.root_dir / "process", ips=ips, clock=clock, ids=RandomIds()) as runtime:
            yield RuntimeParts(
                name="process",
                version="1",
                runtime=runtime,
                images=ProcessImages(os.geteuid()),
                feed=runtime,
                commands=runtime,
                streams=runtime,
                log_writer=runtime,
            )
    except (OSError, RuntimeFailure) as error:
        raise CannotStart(f"containers cannot be run as processes: {error}") from error


_OPENERS: dict[str, Callable[[NodeSettings, Clock], AbstractAsyncContextManager[RuntimeParts]]] = {
    "process": _process,
    "sim": _sim,
}
