"""Keeps the sandboxes and containers of process pods in memory, newest first.

The runtime's event loop owns it. The value of a pod is rebuilt only after it has changed.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from pykubelet.api.pods import PodUid
from pykubelet.runtimes.process.shim.processes import ProcessIdentity
from pykubelet.runtimes.process.state import (
    ContainerExitRecord,
    ContainerRecord,
    ContainerStartRecord,
    ProcessPodRecord,
    SandboxRecord,
    runtime_container,
)
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod

NO_HANDLE = -1


@dataclass(slots=True, eq=False)
class ContainerEntry:
    """One container and the state of its shim."""

    facts: ContainerRecord
    state: ContainerStartRecord | None = None
    exit: ContainerExitRecord | None = None
    handle: int = NO_HANDLE
    """The pidfd of its shim, while that lives."""
    is_starting: bool = False
    was_signalled: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def value(self) -> RuntimeContainer:
        return runtime_container(self.facts, self.state, self.exit)

    @property
    def is_alive(self) -> bool:
        """Whether the container starts or runs."""
        return self.is_starting or (self.exit is None and self.value().state == ContainerState.RUNNING)


@dataclass(slots=True, eq=False)
class PodEntry:
    """The sandboxes and containers of one pod."""

    facts: ProcessPodRecord
    sandboxes: list[SandboxRecord] = field(default_factory=list)
    containers: list[ContainerEntry] = field(default_factory=list)
    cached: RuntimePod | None = None

    def in_sandbox(self, sandbox_id: str) -> list[ContainerEntry]:
        return [one for one in self.containers if one.facts.sandbox_id == sandbox_id]

    def supervisors(self) -> list[int]:
        """The PIDs of the shims of its containers."""
        states = [one.state for one in self.containers if one.exit is None]
        return [state.supervisor.pid for state in states if state is not None and state.supervisor is not None]

    def sandbox(self, sandbox_id: str) -> SandboxRecord | None:
        return next((one for one in self.sandboxes if one.id == sandbox_id), None)


class ProcessPods:
    """All pods of the runtime; `boot_id` and `ips` are the machine's."""

    def __init__(self, boot_id: str, ips: tuple[str, ...]) -> None:
        self._boot_id, self._ips = boot_id, ips
        self._pods: dict[PodUid, PodEntry] = {}
        self._owners: dict[str, tuple[PodEntry, ContainerEntry | None]] = {}
        """The pod of each sandbox and container id."""

    def pods(self) -> Iterator[RuntimePod]:
        return (self._value(pod) for pod in self._pods.values())

    def supervisors(self) -> dict[str, ProcessIdentity]:
        """The shim of each container that has not ended, by container id."""
        started = ((one.facts.id, one.state) for pod in self._pods.values() for one in pod.containers if not one.exit)
        return {id: state.supervisor for id, state in started if state is not None and state.supervisor is not None}

    def pod(self, uid: PodUid) -> RuntimePod | None:
        pod = self._pods.get(uid)
        return self._value(pod) if pod is not None else None

    def sandboxes(self) -> list[SandboxRecord]:
        """The sandboxes of all pods."""
        return [one for pod in self._pods.values() for one in pod.sandboxes]

    def owner(self, id: str) -> tuple[PodEntry | None, ContainerEntry | None]:
        """The pod of a sandbox or container, and the container if the id is one."""
        return self._owners.get(id, (None, None))

    def put_sandbox(self, record: SandboxRecord) -> None:
        """Add or replace a sandbox."""
        pod = self._pods.setdefault(record.pod.uid, PodEntry(record.pod))
        pod.sandboxes = [record, *(one for one in pod.sandboxes if one.id != record.id)]
        pod.sandboxes.sort(key=lambda one: (one.created_at, one.attempt), reverse=True)
        pod.cached = None
        self._owners[record.id] = pod, None

    def put_container(self, entry: ContainerEntry) -> None:
        pod = self._pods.setdefault(entry.facts.pod.uid, PodEntry(entry.facts.pod))
        pod.containers.insert(0, entry)
        pod.containers.sort(key=lambda one: (one.facts.created_at, one.facts.attempt), reverse=True)
        pod.cached = None
        self._owners[entry.facts.id] = pod, entry

    def touch(self, entry: ContainerEntry) -> None:
        """Record that a container has changed."""
        pod, _ = self.owner(entry.facts.id)
        if pod is not None:
            pod.cached = None

    def remove(self, id: str) -> None:
        """Remove a container, or a sandbox with its containers."""
        pod, container = self._owners.pop(id, (None, None))
        if pod is None:
            return
        removed = [container] if container is not None else pod.in_sandbox(id)
        for one in removed:
            self._owners.pop(one.facts.id, None)
        pod.containers = [one for one in pod.containers if one not in removed]
        pod.sandboxes = [one for one in pod.sandboxes if one.id != id]
        pod.cached = None
        if not pod.sandboxes and not pod.containers:
            del self._pods[pod.facts.uid]

    def _value(self, pod: PodEntry) -> RuntimePod:
        if pod.cached is None:
            pod.cached = RuntimePod(
                uid=pod.facts.uid,
                namespace=pod.facts.namespace,
                name=pod.facts.name,
                sandboxes=tuple(sandbox.value(self._boot_id, self._ips) for sandbox in pod.sandboxes),
                containers=tuple(container.value() for container in pod.containers),
            )
        return pod.cached
