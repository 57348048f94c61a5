"""Keeps the pods of a runtime in memory.

Implements `pods`, `inspect` and `changes` for runtimes written in Python. A runtime records here what it does with containers. Listing thousands of pods is cheap: the value of a pod is rebuilt only
after it has changed.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.protocol import (
    ChangeHints,
    ChangeSubscription,
    ContainerRequest,
    ContainerState,
    RuntimeContainer,
    RuntimeFailure,
    RuntimePod,
    Sandbox,
    SandboxRequest,
)


@dataclass(slots=True, eq=False)
class _PodBookEntry:
    """The sandboxes and containers of one pod by id, in order of creation; `value` is cached until a change."""

    bare: RuntimePod
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, RuntimeContainer] = field(default_factory=dict)
    cached: RuntimePod | None = None

    def value(self) -> RuntimePod:
        if self.cached is None:
            sandboxes, containers = reversed(self.sandboxes.values()), reversed(self.containers.values())
            self.cached = replace(self.bare, sandboxes=tuple(sandboxes), containers=tuple(containers))
        return self.cached


class PodBook:
    """The pods of a runtime; each change costs O(1), however many pods there are."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[PodUid, _PodBookEntry] = {}
        self._owners: dict[str, PodUid] = {}
        """The pod of each sandbox and container id."""
        self._made = 0
        self._hints = ChangeHints()

    def pods(self) -> list[RuntimePod]:
        return [entry.value() for entry in self._entries.values()]

    def inspect(self, uid: PodUid) -> RuntimePod | None:
        """One pod; None if there is nothing of it."""
        entry = self._entries.get(uid)
        return entry.value() if entry is not None else None

    def changes(self) -> ChangeSubscription:
        """Hints about all later changes, as long as the subscription is referenced."""
        return self._hints.subscribe()

    def add_sandbox(self, request: SandboxRequest, *, ips: tuple[str, ...] = ()) -> str:
        """Record a new sandbox; its id. `ips` are ignored for pods in the host's network."""
        pod = request.pod
        uid, shares_host = PodUid(pod.metadata.uid), pod.spec.host_network
        bare = RuntimePod(uid=uid, namespace=pod.metadata.namespace, name=pod.metadata.name)
        sandbox = Sandbox(
            id=self._new_id("sandbox"),
            attempt=request.attempt,
            created_at=self._clock.now(),
            ips=() if shares_host else ips,
            host_network=shares_host,
        )
        self._entries.setdefault(uid, _PodBookEntry(bare)).sandboxes[sandbox.id] = sandbox
        self._own(sandbox.id, uid)
        return sandbox.id

    def add_container(self, request: ContainerRequest) -> str:
        """Record a new container; its id. RuntimeFailure if its sandbox is missing or not ready."""
        entry = self._entry_of(request.sandbox_id)
        sandbox = entry.sandboxes.get(request.sandbox_id) if entry is not None else None
        if entry is None or sandbox is None or not sandbox.is_ready:
            raise RuntimeFailure(f'sandbox "{request.sandbox_id}" is not ready')
        container = RuntimeContainer(
            id=self._new_id("container"),
            name=request.container.name,
            state=ContainerState.CREATED,
            sandbox_id=request.sandbox_id,
            attempt=request.attempt,
            image=request.container.image,
            image_id=request.image_id,
            hash=request.hash,
            created_at=self._clock.now(),
        )
        entry.containers[container.id] = container
        self._own(container.id, entry.bare.uid)
        return container.id

    def container(self, container_id: str) -> RuntimeContainer:
        """A container by id; RuntimeFailure if it does not exist."""
        entry = self._entry_of(container_id)
        if entry is None or container_id not in entry.containers:
            raise RuntimeFailure(f'container "{container_id}" not found')
        return entry.containers[container_id]

    def running_in(self, id: str) -> list[RuntimeContainer]:
        """The running containers with this id or in the sandbox with this id."""
        return [one for one in self.containers_in(id) if one.state == ContainerState.RUNNING]

    def containers_in(self, id: str) -> list[RuntimeContainer]:
        """The containers with this id or in the sandbox with this id."""
        entry = self._entry_of(id)
        containers = entry.containers.values() if entry is not None else ()
        return [one for one in containers if id in {one.id, one.sandbox_id}]

    def note_start(self, container_id: str) -> None:
        self._change(container_id, state=ContainerState.RUNNING, started_at=self._clock.now())

    def note_exit(self, container_id: str, exit_code: int, reason: str = "", message: str = "") -> None:
        self._change(
            container_id,
            state=ContainerState.EXITED,
            finished_at=self._clock.now(),
            exit_code=exit_code,
            reason=reason or ("Error" if exit_code else "Completed"),
            message=message,
        )

    def note_stop(self, id: str) -> None:
        """Record that a sandbox has stopped; does nothing for a container."""
        entry = self._entry_of(id)
        if entry is not None and id in entry.sandboxes:
            entry.sandboxes[id] = replace(entry.sandboxes[id], is_ready=False)
            self._note_change(entry)

    def remove(self, id: str) -> set[str]:
        """Remove a container, or a sandbox with its containers; the removed ids. RuntimeFailure if a container runs."""
        entry = self._entry_of(id)
        if entry is None:
            return set()
        if self.running_in(id):
            raise RuntimeFailure(f'"{id}" still runs')
        gone = {id, *(one.id for one in entry.containers.values() if one.sandbox_id == id)}
        for one in gone:
            entry.containers.pop(one, None)
            entry.sandboxes.pop(one, None)
            del self._owners[one]
        if not entry.sandboxes and not entry.containers:
            del self._entries[entry.bare.uid]
        self._note_change(entry)
        return gone

    def _new_id(self, kind: str) -> str:
        self._made += 1
        return f"{kind}-{self._made:056x}"

    def _own(self, id: str, uid: PodUid) -> None:
        self._owners[id] = uid
        self._note_change(self._entries[uid])

    def _entry_of(self, id: str) -> _PodBookEntry | None:
        uid = self._owners.get(id)
        return self._entries[uid] if uid is not None else None

    def _change(self, container_id: str, **fields: Any) -> None:
        entry = self._entry_of(container_id)
        if entry is not None and container_id in entry.containers:
            entry.containers[container_id] = replace(entry.containers[container_id], **fields)
            self._note_change(entry)

    def _note_change(self, entry: _PodBookEntry) -> None:
        entry.cached = None
        self._hints.offer(entry.bare.uid)
