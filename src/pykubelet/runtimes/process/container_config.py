"""Builds the configuration that a shim runs a container with, or says why the node cannot run it.

A setting that the machine does not permit fails with CreateContainerConfigError instead of being ignored. Without root, a
container runs as the kubelet's own user, and a pod that requests another one fails. A kubelet with root runs it as the
pod says, else as root, with containerd's default capabilities. Unlike containerd, a user without a known group gets the group of the
same number, not root's, and the group database of the machine is ignored.

Upstream: pkg/securitycontext/util.go
"""

import posixpath
import re
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from pykubelet.api.generated.core import Pod, PodSecurityContext, SecurityContext, VolumeMount
from pykubelet.api.pods import PodUid
from pykubelet.podnetwork.host_ports import HostPortError, PortMapping, port_mapping
from pykubelet.runtimes.dns import (
    RESOLV_CONF,
    ClusterDns,
    pod_resolver,
    read_resolv_conf,
    read_resolver,
    resolv_conf,
)
from pykubelet.runtimes.process.cgroups import NO_CGROUPS, AvailableCgroups, plan_cgroups
from pykubelet.runtimes.process.shim.rootfs import BY_BUBBLEWRAP, BY_ROOT, NO_NAMESPACE
from pykubelet.runtimes.process.state import (
    ContainerConfig,
    ContainerRecord,
    ProcessPodRecord,
    ProcessUser,
    SandboxRecord,
)
from pykubelet.runtimes.protocol import ContainerRequest, Mount, RuntimeFailure, SandboxRequest
from pykubelet.runtimes.qos import oom_score_adjustment

CONFIG_ERROR = "CreateContainerConfigError"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HOSTS = "/etc/hosts"
_TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
# Admission mounts the token into every pod, so a node without mounts must not refuse it. Programs find it here instead.
_TOKENS_VOLUME = "kube-api-access-"
_TOKENS_VARIABLE = "KUBERNETES_SERVICE_ACCOUNT_PATH"
# Many open files as in containerd; no core dumps, which contain secrets.
_LIMITS = (("NOFILE", 1_048_576), ("CORE", 0))
_REAL_TIME = re.compile(r"SIGRT(MIN|MAX)([+-]\d+)?")

# In the order of their numbers in the kernel.
_CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
]
# Those that containerd gives to a container without settings.
_DEFAULT_CAPABILITIES = frozenset(
    [
        "CHOWN",
        "DAC_OVERRIDE",
        "FSETID",
        "FOWNER",
        "MKNOD",
        "NET_RAW",
        "SETGID",
        "SETUID",
        "SETFCAP",
        "SETPCAP",
        "NET_BIND_SERVICE",
        "SYS_CHROOT",
        "KILL",
        "AUDIT_WRITE",
    ]
)
_ALL = "ALL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The entry of a user in the machine's user database."""

    name: str
    gid: int
    home: str


class UserNotAllowed(ValueError):
    """The kubelet may not run processes as the requested user or group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHost:
    """The kubelet's user, and what the machine permits."""

    me: ProcessUser
    account: Callable[[int], Account | None]
    way: str
    cgroups: AvailableCgroups = NO_CGROUPS
    memory_bytes: int = 0
    max_pids: int = 0


def sandbox_record(request: SandboxRequest, *, id: str, created_at: datetime, boot_id: str) -> SandboxRecord:
    """The record of a new sandbox; RuntimeFailure if its pod has a runtime class."""
    if request.handler:
        # A pod that requests more isolation must not silently get none.
        raise RuntimeFailure(f'no runtime for "{request.handler}" is configured')
    return SandboxRecord(
        id=id,
        pod=_pod_record(request.pod),
        attempt=request.attempt,
        created_at=created_at,
        boot_id=boot_id,
        hostname=request.hostname,
        host_network=request.pod.spec.host_network,
    )


def port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    """The host ports of regular containers, then of sidecars; RuntimeFailure if pods cannot have one of them."""
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    try:
        return tuple(
            port_mapping(port.protocol or "TCP", port.host_ip, port.host_port, port.container_port)
            for container in (*pod.spec.containers, *sidecars)
            for port in container.ports
            if port.host_port
        )
    except HostPortError as error:
        raise RuntimeFailure(str(error)) from error


def _pod_record(pod: Pod) -> ProcessPodRecord:
    return ProcessPodRecord(uid=PodUid(pod.metadata.uid), namespace=pod.metadata.namespace, name=pod.metadata.name)


def container_config(
    request: ContainerRequest,
    *,
    id: str,
    hostname: str,
    resolv_conf: str = "",
    network: str = "",
    network_holder: str = "",
    host: ProcessHost,
    now: datetime,
) -> ContainerConfig:
    """The configuration of a container; RuntimeFailure if this node cannot run it as specified.

    `resolv_conf` is the file that it gets instead of the machine's resolv.conf; empty for the machine's. `network` is the
    file of its network namespace, empty for the machine's; that file exists only for the holder in `network_holder`, if given.
    """
    container, context = request.container, request.container.security_context
    argv = (*request.command, *request.args)
    if not argv:
        advice = "images are only names on this node, and it runs commands of the machine: set command or args"
        raise RuntimeFailure(f'container "{container.name}" has no command: {advice}', reason=CONFIG_ERROR)
    user = _user(request, host)
    is_read_only = bool(context is not None and context.read_only_root_filesystem)
    if is_read_only and host.way in {BY_BUBBLEWRAP, NO_NAMESPACE}:
        raise _refusal("readOnlyRootFilesystem")
    stop_signal = signal_number(container.lifecycle.stop_signal if container.lifecycle else None)
    return ContainerConfig(
        facts=_facts(request, id=id, stop_signal=stop_signal, now=now),
        argv=argv,
        environment=tuple(_environment(request, hostname, host, user).items()),
        cwd=container.working_dir or "/",
        user=user if host.me.uid == 0 and host.way in {BY_ROOT, NO_NAMESPACE} else None,
        way=host.way,
        network=network,
        network_holder=network_holder if network else "",
        mounts=(*mounts_of(request, host.way), *_resolver_mount(request, resolv_conf)),
        read_only_root=is_read_only,
        hostname="" if request.pod.spec.host_network else hostname,
        log_path=request.log_path,
        stop_signal=stop_signal,
        tty=container.tty,
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        limits=_LIMITS,
        oom_score_adj=oom_score_adjustment(request.pod, container, host.memory_bytes),
        cgroups=plan_cgroups(host.cgroups, id, container.resources, max_pids=host.max_pids),
        dropped_capabilities=dropped_capabilities(context) if host.me.uid == 0 else (),
        no_new_privileges=bool(context is not None and context.allow_privilege_escalation is False),
    )


def _facts(request: ContainerRequest, *, id: str, stop_signal: int, now: datetime) -> ContainerRecord:
    return ContainerRecord(
        id=id,
        pod=_pod_record(request.pod),
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


def _user(request: ContainerRequest, host: ProcessHost) -> ProcessUser:
    me = host.me
    try:
        contexts = request.pod.spec.security_context, request.container.security_context
        user = user_of(*contexts, me=me, account=host.account)
    except UserNotAllowed as refused:
        raise RuntimeFailure(f'container "{request.container.name}": {refused}', reason=CONFIG_ERROR) from refused
    if host.way not in {BY_ROOT, NO_NAMESPACE} and (user.uid, user.gid) != (me.uid, me.gid):
        message = f"this node may not mount, so it runs containers as user {me.uid} and group {me.gid} only"
        raise RuntimeFailure(f'container "{request.container.name}": {message}', reason=CONFIG_ERROR)
    return user


def _environment(request: ContainerRequest, hostname: str, host: ProcessHost, user: ProcessUser) -> dict[str, str]:
    """The variables of the container on top of the defaults; none of the kubelet's own."""
    account = host.account(user.uid)
    always = {"PATH": _PATH, "HOSTNAME": hostname, "HOME": account.home if account is not None else "/"}
    if request.container.tty:
        always["TERM"] = "xterm"
    tokens = [mount.host_path for mount in request.mounts if mount.container_path == _TOKENS]
    if tokens and host.way == NO_NAMESPACE:
        always[_TOKENS_VARIABLE] = tokens[0]
    return {**always, **dict(request.environment)}


def mounts_of(request: ContainerRequest, way: str) -> tuple[Mount, ...]:
    """The mounts of a container; RuntimeFailure if one is not possible."""
    for mount in request.mounts:
        if mount.propagation == "Bidirectional" or (mount.propagation != "None" and way == BY_BUBBLEWRAP):
            raise _refusal(f"mountPropagation {mount.propagation} of {mount.container_path}")
    if way == NO_NAMESPACE:
        _check_without_namespace(request)
        return ()
    return request.mounts


def _resolver_mount(request: ContainerRequest, resolv_conf: str) -> tuple[Mount, ...]:
    """The mount of the pod's resolv.conf, unless the container mounts one itself."""
    taken = {posixpath.normpath(mount.container_path) for mount in request.mounts}
    if not resolv_conf or taken & {str(RESOLV_CONF), str(RESOLV_CONF.parent)}:
        return ()
    return (Mount(host_path=resolv_conf, container_path=str(RESOLV_CONF)),)


def pod_resolv_conf(pod: Pod, cluster: ClusterDns, way: str) -> str:
    """The text of a pod's resolv.conf; empty if the machine's says the same. Blocks briefly.

    RuntimeFailure if the pod's own DNS settings cannot be shown to it. A pod that only asks for the cluster DNS then uses the
    machine's name servers.
    """
    found = pod_resolver(pod, cluster, read_resolver())
    if found == read_resolv_conf():
        return ""
    if way != NO_NAMESPACE:
        return resolv_conf(found)
    if pod.spec.dns_policy == "None" or pod.spec.dns_config is not None:
        raise _refusal("its own DNS settings (dnsPolicy None, dnsConfig)")
    return ""


def _check_without_namespace(request: ContainerRequest) -> None:
    """Without mounts, accepts those whose two paths are equal, and those that the pod did not specify."""
    own = [mount for mount in request.container.volume_mounts if not _is_of_admission(mount)]
    specified = {posixpath.normpath(mount.mount_path) for mount in own}
    implicit = {_HOSTS, _TOKENS, posixpath.normpath(request.container.termination_message_path)} - specified
    impossible = [mount.container_path for mount in request.mounts if not _is_satisfied(mount, implicit)]
    if impossible:
        raise _refusal(f"the volume mount at {', '.join(sorted(impossible))}")


def _is_of_admission(mount: VolumeMount) -> bool:
    """Whether the API server's admission added the mount, not the pod's author."""
    return mount.mount_path == _TOKENS and mount.name.startswith(_TOKENS_VOLUME)


def _is_satisfied(mount: Mount, implicit: set[str]) -> bool:
    path = posixpath.normpath(mount.container_path)
    return path in implicit or (path == posixpath.normpath(mount.host_path) and not mount.read_only)


def _refusal(what: str) -> RuntimeFailure:
    return RuntimeFailure(
        f"this node cannot give a container {what}: it needs root, or user namespaces for ordinary users",
        reason=CONFIG_ERROR,
    )


def signal_number(name: str | None) -> int:
    """The number of a stop signal such as SIGTERM or SIGRTMIN+3; SIGTERM by default."""
    if name is None:
        return signal.SIGTERM
    real_time = _REAL_TIME.fullmatch(name)
    if real_time is not None:
        start = signal.SIGRTMIN if real_time[1] == "MIN" else signal.SIGRTMAX
        number = start + int(real_time[2] or 0)
        return number if signal.SIGRTMIN <= number <= signal.SIGRTMAX else signal.SIGTERM
    return signal.Signals.__members__.get(name, signal.SIGTERM)


def user_of(
    pod: PodSecurityContext | None,
    container: SecurityContext | None,
    *,
    me: ProcessUser,
    account: Callable[[int], Account | None],
) -> ProcessUser:
    """The user and groups of a container; `me` is the kubelet's own user."""
    uid = _setting("run_as_user", container, pod)
    gid = _setting("run_as_group", container, pod)
    if me.uid != 0:
        _check_is_me(uid, gid, me)
        return me
    if uid is None:
        uid = me.uid
    if gid is None:
        known = account(uid)
        gid = known.gid if known is not None else uid
    groups = dict.fromkeys(pod.supplemental_groups if pod is not None else ())
    if pod is not None and pod.fs_group is not None:
        groups[pod.fs_group] = None
    return ProcessUser(uid=uid, gid=gid, groups=tuple(groups))


def _check_is_me(uid: int | None, gid: int | None, me: ProcessUser) -> None:
    if uid not in {None, me.uid}:
        raise UserNotAllowed(
            f"runAsUser is {uid}, but the kubelet is not root and runs containers as user {me.uid} only"
        )
    if gid not in {None, me.gid}:
        raise UserNotAllowed(
            f"runAsGroup is {gid}, but the kubelet is not root and runs containers as group {me.gid} only"
        )


def _setting(name: str, *contexts: SecurityContext | PodSecurityContext | None) -> int | None:
    for context in contexts:
        value: int | None = getattr(context, name, None)
        if value is not None:
            return value
    return None


def dropped_capabilities(context: SecurityContext | None) -> tuple[int, ...]:
    """The numbers of the capabilities that a container of root drops before it starts."""
    if context is not None and context.privileged:
        return ()
    given = context.capabilities if context is not None else None
    added = _names(given.add if given is not None else ())
    dropped = _names(given.drop if given is not None else ())
    start = frozenset(_CAPABILITIES) if _ALL in added else frozenset() if _ALL in dropped else _DEFAULT_CAPABILITIES
    kept = (start | added) - dropped
    return tuple(number for number, name in enumerate(_CAPABILITIES) if name not in kept)


def _names(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.upper().removeprefix("CAP_") for name in names)
