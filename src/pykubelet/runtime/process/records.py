"""What is known of sandboxes and containers on disk, and what that says about them.

`<root>/sandboxes/<id>/sandbox.json` and `<root>/containers/<id>/{config,state,exit}.json`: the agent writes the first two
kinds, the container's supervisor the others.
"""

from datetime import UTC, datetime, timedelta

from msgspec import Struct

from pykubelet.api.keys import PodUid
from pykubelet.runtime.process.shim.identity import ProcessIdentity
from pykubelet.runtime.protocol import ContainerState, RuntimeContainer, Sandbox

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PodFacts(Struct, frozen=True, gc=False, kw_only=True):
    """Whose it is."""

    uid: str
    namespace: str
    name: str


class SandboxRecord(Struct, frozen=True, gc=False, kw_only=True):
    """What the containers of a pod share: here only that they are one pod's, on one boot of the machine."""

    id: str
    pod: PodFacts
    attempt: int
    created_at: datetime
    boot_id: str
    hostname: str
    host_network: bool
    is_stopped: bool = False

    def tell(self, boot_id: str, ips: tuple[str, ...]) -> Sandbox:
        """The sandbox as others see it; none outlives a boot."""
        return Sandbox(
            id=self.id,
            attempt=self.attempt,
            is_ready=not self.is_stopped and self.boot_id == boot_id,
            created_at=self.created_at,
            ips=() if self.host_network else ips,
            host_network=self.host_network,
        )


class ContainerFacts(Struct, frozen=True, gc=False, kw_only=True):
    """What the node told about a container when it was made."""

    id: str
    pod: PodFacts
    sandbox_id: str
    name: str
    attempt: int
    image: str
    image_id: str
    hash: str
    created_at: datetime
    stop_signal: int
    tty: bool


class User(Struct, frozen=True, gc=False, kw_only=True):
    """Whom a container runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


class MountConfig(Struct, frozen=True, gc=False, kw_only=True):
    """A file or folder of the machine to be seen at a path of the container."""

    host_path: str
    container_path: str
    read_only: bool
    propagation: str


class ControlGroup(Struct, frozen=True, gc=False, kw_only=True):
    """A control group to be made for a container, with its limits."""

    path: str
    values: tuple[tuple[str, int | str], ...]


class ContainerConfig(Struct, frozen=True, gc=False, kw_only=True):
    """Everything a supervisor has to know. Holds secrets: the environment."""

    facts: ContainerFacts
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    cwd: str
    user: User | None
    """None to stay who we are."""
    way: str
    """How it gets a view of its own: see `shim/namespace.py`."""
    mounts: tuple[MountConfig, ...]
    read_only_root: bool
    hostname: str
    log_path: str
    stop_signal: int
    """Once more, for the supervisor reads no facts; likewise `tty`."""
    tty: bool
    stdin: bool
    stdin_once: bool
    limits: tuple[tuple[str, int], ...]
    oom_score_adj: int
    """Kept where the machine does not let us set it."""
    cgroups: tuple[ControlGroup, ...]
    dropped_capabilities: tuple[int, ...]
    no_new_privileges: bool

    def __repr__(self) -> str:
        return f"ContainerConfig({self.facts.id})"


class State(Struct, frozen=True, gc=False, kw_only=True):
    """Who supervises and what runs. Without a supervisor: nobody ever will."""

    supervisor: ProcessIdentity | None = None
    main: ProcessIdentity | None = None
    started_at: int = 0


class Exit(Struct, frozen=True, gc=False, kw_only=True):
    """How a container ended."""

    exit_code: int
    reason: str
    finished_at: int
    message: str = ""


def tell(facts: ContainerFacts, state: State | None, exit: Exit | None) -> RuntimeContainer:
    """The container as others see it, its supervisor being alive unless there is an exit."""
    if exit is not None:
        phase = ContainerState.EXITED
    elif state is not None and state.main is not None:
        phase = ContainerState.RUNNING
    else:
        phase = ContainerState.CREATED
    started_at = _time(state.started_at) if state is not None and state.started_at else None
    finished_at = _time(exit.finished_at) if exit is not None else None
    return RuntimeContainer(
        id=facts.id,
        name=facts.name,
        state=phase,
        sandbox_id=facts.sandbox_id,
        attempt=facts.attempt,
        image=facts.image,
        image_id=facts.image_id,
        hash=facts.hash,
        created_at=facts.created_at,
        # One that could not be started has at least tried.
        started_at=started_at or finished_at,
        finished_at=finished_at,
        exit_code=exit.exit_code if exit is not None else 0,
        reason=exit.reason if exit is not None else "",
        message=exit.message if exit is not None else "",
    )


def pod_uid(pod: PodFacts) -> PodUid:
    """The pod's UID."""
    return PodUid(pod.uid)


def _time(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
