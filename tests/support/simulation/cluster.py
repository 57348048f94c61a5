"""A whole cluster in one process: a server, the controllers and a node are programs that crash and start again.

What outlives a program is what would outlive its process: files, containers, the clock. A crashed server's database is
copied, because its dead connection still holds the lock.
"""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from functools import partial
from pathlib import Path
from typing import Any

from node_status_rig import MACHINE
from pykubelet.aio.ids import LETTERS, SUFFIX_LENGTH
from pykubelet.aio.log import facts_of
from pykubelet.api.errors import ApiError
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.app.controllers import CONTROLLERS, NAMESPACE, controllers
from pykubelet.app.node import node
from pykubelet.app.settings import NodeSettings
from pykubelet.kubelet.nodestatus.machine import MachineInfo
from pykubelet.testing.local_api import local_api
from simulation.faults import FaultPlan, JumpingClock
from simulation.invariants import ServerChecks
from simulation.loop import Program, SimulationLoop
from simulation.machine import Containers, SimulatedMachine
from simulation.network import Network, NetworkClient
from simulation.object_rules import watch_objects
from simulation.trace import Trace, random_for

DOWN_SECONDS = (0.05, 1.0, 5.0, 20.0, 70.0)
"""How long a crashed program stays away; after 40 seconds a node counts as lost."""
LOST_SECONDS = (60.0, 150.0, 400.0)
"""How long a node is lost; after five minutes pods that tolerate it no longer are evicted."""


class SeededIds:
    """Identifiers that a seed decides."""

    def __init__(self, seed: int) -> None:
        self._random, self._count = random_for(seed, "ids"), 0

    def uid(self) -> str:
        self._count += 1
        return f"{self._random.getrandbits(32):08x}-0000-4000-8000-{self._count:012x}"

    def suffix(self) -> str:
        return "".join(self._random.choices(LETTERS, k=SUFFIX_LENGTH))


class ConstantMachine:
    """The facts of a machine that never change."""

    def read(self) -> MachineInfo:
        return MACHINE


class NoSignals:
    """A machine without any pressure."""

    def read(self) -> dict[str, Any]:
        return {}


class SimulatedCluster:
    """The programs of a cluster; each runs until it crashes and then starts again.

    With one node nothing is ever lost: seeds of such clusters replay as they always did.
    """

    def __init__(self, *, seed: int, trace: Trace, folder: Path, nodes: int) -> None:
        names = ["node"] if nodes == 1 else [f"node-{number + 1}" for number in range(nodes)]
        self.seed, self.trace, self.folder = seed, trace, folder
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulationLoop)
        self._loop = loop
        self.clock, self._ids = JumpingClock(), SeededIds(seed)
        self.plan = FaultPlan(seed, trace, ("server", "controllers", *names))
        loop.disk, loop.disk_delay = self.plan.disk, self.plan.disk_delay
        self.checks = ServerChecks(trace)
        self.containers = Containers(trace, lambda pod: pod in self.checks.forced)
        watch_objects(self.checks, self.containers)
        self.network = Network(plan=self.plan, checks=self.checks)
        self.machines = {
            program: SimulatedMachine(
                f"node-{number + 1}",
                manifests=folder / ("manifests" if number == 0 else f"manifests-{number + 1}"),
                clock=self.clock,
                plan=self.plan,
                containers=self.containers,
            )
            for number, program in enumerate(names)
        }
        self.programs: dict[str, Program] = {}
        self._graves: list[Program] = []
        self._databases = 0
        self._random = random_for(seed, "crashes")
        self._starters: dict[str, Callable[[Program], AbstractAsyncContextManager[None]]] = {
            "server": self._server,
            "controllers": self._controllers,
            **dict.fromkeys(names, self._node),
        }
        # Our server does it by itself, others leave it to the namespace controller.
        self._server_ends_namespaces = nodes == 1 or seed % 2 == 0
        self._away: dict[str, float] = {}
        """How long the next crash of a program lasts."""

    def start_all(self) -> None:
        for name in self._starters:
            self._start(name)

    async def run_storm(self) -> None:
        """Crash programs and set the clock, until cancelled."""
        losses = [self._losses()] if len(self.machines) > 1 else []
        await asyncio.gather(self._jumps(), *(self._crashes(name) for name in self._starters), *losses)

    async def _crashes(self, name: str) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self.plan.crash_seconds[name]))
            program = self.programs.get(name)
            if program is not None and not program.is_dead:
                # Between any two of its steps, not only when everything waits.
                program.crash_at_step = program.steps + self._random.randint(1, self._random.choice((3, 30, 300)))

    async def _jumps(self) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self.plan.jump_seconds))
            by = self._random.choice((-3700.0, -120.0, -1.5, 1.5, 120.0, 3700.0))
            # The wall clock stays within hours of the truth, as any clock that somebody corrects.
            self.clock.offset_seconds = max(-7200.0, min(7200.0, self.clock.offset_seconds + by))
            self.trace.fault("clock", f"jumps by {by}")

    async def _losses(self) -> None:
        """Nodes are lost for minutes: their programs stop, or run on without the API server."""
        while True:
            await asyncio.sleep(self._random.expovariate(1 / self.plan.loss_seconds))
            name, seconds = self._random.choice([*self.machines]), self._random.choice(LOST_SECONDS)
            program = self.programs[name]
            if program.is_dead or name in self.network.cut_off:
                continue
            if self._random.random() < 0.5:
                self._away[name] = seconds
                program.crash()
            else:
                self.trace.fault("cut off", f"{name} for {seconds} s")
                self.network.cut_off.add(name)
                self.network.hang_up(program)
                self._loop.call_later(seconds, self.network.cut_off.discard, name, context=Context())

    def down(self) -> list[str]:
        """The names of the nodes whose programs do not run."""
        return [machine.name for name, machine in self.machines.items() if self.programs[name].is_dead]

    def _start(self, name: str) -> None:
        program = Program(name)
        program.on_crash = self._crashed
        self.programs[name] = program
        self.trace.note(f"{name} starts")
        self._loop.create_task(self._live(name, program), name=name, context=program.context())

    async def _live(self, name: str, program: Program) -> None:
        """The main task of a program; one that cannot start tries again, as under systemd."""
        while True:
            try:
                async with self._starters[name](program):
                    await asyncio.Event().wait()
            except (ApiError, OSError) as error:
                self.trace.note(f"{name} ends: {error!r}")
            except Exception as error:
                if not self._is_injected(error):
                    logging.getLogger("pykubelet").exception("program ended")
                    self.trace.violated(f"{name} ends: {error!r}")
            await asyncio.sleep(2)

    def _is_injected(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):
            return all(map(self._is_injected, error.exceptions))
        return isinstance(error, (ApiError, OSError)) or "storage is full" in str(error)

    def _crashed(self, program: Program) -> None:
        self.trace.fault("crash", program.name)
        self._loop.bury(program)
        self._graves.append(program)
        outside = Context()
        if program.name == "server":
            self.network.down()
        else:
            self._loop.call_later(0.5, self.network.hang_up, program, context=outside)
        seconds = self._away.pop(program.name, 0.0) or self._random.choice(DOWN_SECONDS)
        self._loop.call_later(seconds, self._start, program.name, context=outside)

    @asynccontextmanager
    async def _server(self, program: Program) -> AsyncIterator[None]:
        folder = self._next_database()
        try:
            empties = self._server_ends_namespaces
            async with local_api(folder, clock=self.clock, ids=self._ids, ends_namespaces=empties) as api:
                self.checks.started(api.store, (kind.resource.group_resource for kind in BUILT_IN_KINDS))
                self.network.up(api.client, program)
                yield
        finally:
            self.network.down()

    def _next_database(self) -> Path:
        """The database as the last server left it: its files are copied, for its locks are still held."""
        before, after = (self.folder / f"server-{self._databases + one}" for one in (0, 1))
        self._databases += 1
        if before.exists():
            shutil.copytree(before, after)
        else:
            after.mkdir()
        return after

    @asynccontextmanager
    async def _controllers(self, _: Program) -> AsyncIterator[None]:
        client = NetworkClient(self.network, "controllers")
        unused = ("csrsigning", NAMESPACE) if self._server_ends_namespaces else ("csrsigning",)
        names = [name for name in CONTROLLERS if name not in unused]
        async with controllers(client=client, clock=self.clock, root_ca="the authority", names=names):
            yield

    @asynccontextmanager
    async def _node(self, program: Program) -> AsyncIterator[None]:
        machine = self.machines[program.name]
        settings = NodeSettings(
            node_name=machine.name, root_dir=self.folder / machine.name, manifests=(machine.manifests,)
        )
        client = NetworkClient(self.network, machine.name)
        made = node(
            settings,
            client=client,
            runtime=machine.parts,
            clock=self.clock,
            machine=ConstantMachine(),
            signals=NoSignals(),
        )
        async with made:
            yield

    def watch_log(self) -> None:
        """Treats what the programs log as an error, other than injected ones, as a violation."""
        handler = _ErrorsViolate(self.trace, self._is_injected)
        logger = logging.getLogger("pykubelet")
        logger.addHandler(handler)
        logger.setLevel(logging.WARNING)
        logger.propagate = False
        asyncio_logger = logging.getLogger("asyncio")
        asyncio_logger.addHandler(handler)
        self._loop.set_exception_handler(partial(_unhandled, self.trace))


class _ErrorsViolate(logging.Handler):
    def __init__(self, trace: Trace, is_injected: Callable[[BaseException], bool]) -> None:
        super().__init__(logging.ERROR)
        self._trace, self._is_injected = trace, is_injected

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or self._is_injected(error):
            self._trace.note(f"log: {record.getMessage()} {facts_of(record)} {error!r}")
            return
        text = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
        self._trace.violated(f"log: {record.getMessage()} {facts_of(record)}\n{text}")


def _unhandled(trace: Trace, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    trace.violated(f"unhandled: {context.get('message')} {context.get('exception')!r}")
