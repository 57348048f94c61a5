"""What a supervisor has to do for a container, from what the node asks for; or why it cannot be.

Refusals are CreateContainerConfigError: what the machine does not allow is said at once, and nothing is left out
silently that a program would miss.
"""

import posixpath
import re
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.core import Pod
from pykubelet.runtime.oom_score import oom_score_adjustment
from pykubelet.runtime.process.capabilities import dropped_capabilities
from pykubelet.runtime.process.cgroup_plan import NO_CGROUPS, Cgroups, plan_cgroups
from pykubelet.runtime.process.records import (
    ContainerConfig,
    ContainerFacts,
    MountConfig,
    PodFacts,
    SandboxRecord,
    User,
)
from pykubelet.runtime.process.shim.ways import BY_BUBBLEWRAP, BY_ROOT, NONE
from pykubelet.runtime.process.users import Account, RefusedUser, user_of
from pykubelet.runtime.protocol import ContainerRequest, Mount, RuntimeFailure, SandboxRequest

CONFIG_ERROR = "CreateContainerConfigError"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HOSTS = "/etc/hosts"
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
# As containers have them: many files; no dumps of memory, which holds secrets.
_LIMITS = (("NOFILE", 1_048_576), ("CORE", 0))
_REAL_TIME = re.compile(r"SIGRT(MIN|MAX)([+-]\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Who runs containers here, and what the machine lets it do."""

    me: User
    account: Callable[[int], Account | None]
    way: str
    cgroups: Cgroups = NO_CGROUPS
    memory_bytes: int = 0
    max_pids: int = 0


def sandbox_record(request: SandboxRequest, *, id: str, created_at: datetime, boot_id: str) -> SandboxRecord:
    """What is kept of a sandbox; RuntimeFailure if its pod is not to run as processes."""
    if request.handler:
        # Whoever asked for more isolation must not silently get none.
        raise RuntimeFailure(f'no runtime for "{request.handler}" is configured')
    return SandboxRecord(
        id=id,
        pod=pod_facts(request.pod),
        attempt=request.attempt,
        created_at=created_at,
        boot_id=boot_id,
        hostname=request.hostname,
        host_network=request.pod.spec.host_network,
    )


def pod_facts(pod: Pod) -> PodFacts:
    """Whose it is."""
    return PodFacts(uid=pod.metadata.uid, namespace=pod.metadata.namespace, name=pod.metadata.name)


def container_config(
    request: ContainerRequest, *, id: str, hostname: str, machine: Machine, now: datetime
) -> ContainerConfig:
    """Everything a supervisor has to know; RuntimeFailure if the container cannot be as it is asked for."""
    container, context = request.container, request.container.security_context
    argv = (*request.command, *request.args)
    if not argv:
        told = "images are only names on this node, and it runs commands of the machine: set command or args"
        raise RuntimeFailure(f'container "{container.name}" has no command: {told}', reason=CONFIG_ERROR)
    user = _user(request, machine)
    is_read_only = bool(context is not None and context.read_only_root_filesystem)
    if is_read_only and machine.way in {BY_BUBBLEWRAP, NONE}:
        raise _refusal("readOnlyRootFilesystem")
    stop_signal = signal_number(container.lifecycle.stop_signal if container.lifecycle else None)
    return ContainerConfig(
        facts=_facts(request, id=id, stop_signal=stop_signal, now=now),
        argv=argv,
        environment=tuple(_environment(request, hostname, machine.account(user.uid)).items()),
        cwd=container.working_dir or "/",
        user=user if machine.me.uid == 0 and machine.way in {BY_ROOT, NONE} else None,
        way=machine.way,
        mounts=mounts_of(request, machine.way),
        read_only_root=is_read_only,
        hostname="" if request.pod.spec.host_network else hostname,
        log_path=request.log_path,
        stop_signal=stop_signal,
        tty=container.tty,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        limits=_LIMITS,
        oom_score_adj=oom_score_adjustment(request.pod, container, machine.memory_bytes),
        cgroups=plan_cgroups(machine.cgroups, id, container.resources, max_pids=machine.max_pids),
        dropped_capabilities=dropped_capabilities(context) if machine.me.uid == 0 else (),
        no_new_privileges=bool(context is not None and context.allow_privilege_escalation is False),
    )


def _facts(request: ContainerRequest, *, id: str, stop_signal: int, now: datetime) -> ContainerFacts:
    return ContainerFacts(
        id=id,
        pod=pod_facts(request.pod),
        sandbox_id=request.sandbox_id,
        name=request.container.name,
        attempt=request.attempt,
        image=request.container.image,
        image_id=request.image_id,
        hash=request.hash,
        created_at=now,
        stop_signal=stop_signal,
        tty=request.container.tty,
    )


def _user(request: ContainerRequest, machine: Machine) -> User:
    me = machine.me
    try:
        user = user_of(
            request.pod.spec.security_context,
            request.container.security_context,
            me=me,
            account=machine.account,
        )
    except RefusedUser as refused:
        raise RuntimeFailure(f'container "{request.container.name}": {refused}', reason=CONFIG_ERROR) from refused
    if machine.way not in {BY_ROOT, NONE} and (user.uid, user.gid) != (me.uid, me.gid):
        told = f"this node may not mount, so it runs containers as user {me.uid} and group {me.gid} only"
        raise RuntimeFailure(f'container "{request.container.name}": {told}', reason=CONFIG_ERROR)
    return user


def _environment(request: ContainerRequest, hostname: str, account: Account | None) -> dict[str, str]:
    """The container's variables, on top of those that every container has. Nothing of the agent's own."""
    always = {"PATH": _PATH, "HOSTNAME": hostname, "HOME": account.home if account is not None else "/"}
    if request.container.tty:
        always["TERM"] = "xterm"
    return {**always, **dict(request.environment)}


def mounts_of(request: ContainerRequest, way: str) -> tuple[MountConfig, ...]:
    """The mounts of a container; RuntimeFailure if there is one that cannot be."""
    for mount in request.mounts:
        if mount.propagation == "Bidirectional" or (mount.propagation != "None" and way == BY_BUBBLEWRAP):
            raise _refusal(f"mountPropagation {mount.propagation} of {mount.container_path}")
    if way == NONE:
        _check_without_namespace(request)
        return ()
    return tuple(
        MountConfig(
            host_path=mount.host_path,
            container_path=mount.container_path,
            read_only=mount.read_only,
            propagation=mount.propagation,
        )
        for mount in request.mounts
    )


def _check_without_namespace(request: ContainerRequest) -> None:
    """Allow the mounts that can be done without: where path and path are the same, and those nobody asked for."""
    asked = {posixpath.normpath(mount.mount_path) for mount in request.container.volume_mounts}
    unasked = {_HOSTS, posixpath.normpath(request.container.termination_message_path)} - asked
    impossible = [mount.container_path for mount in request.mounts if not _is_there_anyway(mount, unasked)]
    if impossible:
        hint = " (automountServiceAccountToken: false does without it)" if impossible == [_TOKENS] else ""
        raise _refusal(f"the volume mount at {_joined(impossible)}{hint}")


def _is_there_anyway(mount: Mount, unasked: set[str]) -> bool:
    path = posixpath.normpath(mount.container_path)
    return path in unasked or (path == posixpath.normpath(mount.host_path) and not mount.read_only)


def _refusal(what: str) -> RuntimeFailure:
    return RuntimeFailure(
        f"this node cannot give a container {what}: it needs root, or user namespaces for ordinary users",
        reason=CONFIG_ERROR,
    )


def _joined(paths: Iterable[str]) -> str:
    return ", ".join(sorted(paths))


def signal_number(name: str | None) -> int:
    """The signal that asks a container to stop: by name, as in SIGTERM or SIGRTMIN+3; TERM unless told."""
    if name is None:
        return signal.SIGTERM
    real_time = _REAL_TIME.fullmatch(name)
    if real_time is not None:
        start = signal.SIGRTMIN if real_time[1] == "MIN" else signal.SIGRTMAX
        number = start + int(real_time[2] or 0)
        return number if signal.SIGRTMIN <= number <= signal.SIGRTMAX else signal.SIGTERM
    known = signal.Signals.__members__.get(name)
    return signal.SIGTERM if known is None else known
