"""Builds the CRI security contexts of sandboxes and containers.

Settings of a container override those of its pod. Unlike upstream, a group without a user is not set on the sandbox, because runtimes refuse such a sandbox; and a profile of
unknown type is an error instead of unconfined.

Upstream: pkg/kubelet/kuberuntime/security_context.go, pkg/kubelet/kuberuntime/helpers.go,
pkg/kubelet/kuberuntime/util/util.go, pkg/securitycontext/util.go, pkg/security/apparmor/helpers.go
"""

import posixpath
from typing import Any

from cri_api.v1 import api_pb2 as cri

from pykubelet.api.generated.core import Pod, PodSecurityContext, SeccompProfile, SecurityContext, SELinuxOptions
from pykubelet.api.pods import AnyContainer, app_armor_profile
from pykubelet.runtimes.cri.host import CriHost
from pykubelet.runtimes.protocol import RuntimeFailure

_NO_POD_CONTEXT, _NO_CONTEXT = PodSecurityContext(), SecurityContext()
_MASKED = (
    *("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi"),
    *("/sys/firmware", "/sys/devices/virtual/powercap"),
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# The older field, for runtimes that do not know profile types.
_OLD_APP_ARMOR = {"RuntimeDefault": "runtime/default", "Unconfined": "unconfined"}


def sandbox_security(pod: Pod) -> cri.LinuxSandboxSecurityContext:
    """The security context of a sandbox; it always has the runtime's default seccomp profile."""
    context = pod.spec.security_context or _NO_POD_CONTEXT
    # Unlike upstream: runtimes refuse a sandbox that has a group without a user.
    group = context.run_as_group if context.run_as_user is not None else None
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return cri.LinuxSandboxSecurityContext(
        namespace_options=namespaces(pod),
        selinux_options=_selinux(context.se_linux_options),
        run_as_user=_number(context.run_as_user),
        run_as_group=_number(group),
        supplemental_groups=_groups(context),
        supplemental_groups_policy=_groups_policy(context),
        privileged=any(one.security_context is not None and one.security_context.privileged for one in containers),
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault),
    )


def container_security(
    pod: Pod, container: AnyContainer, host: CriHost, *, image_user: str, target_id: str = ""
) -> cri.LinuxContainerSecurityContext:
    """The security context of a container; it runs as `image_user`, a number or a name, unless the spec sets a user."""
    pod_context, context = pod.spec.security_context or _NO_POD_CONTEXT, container.security_context or _NO_CONTEXT
    is_unmasked = context.proc_mount == "Unmasked"
    user = effective_user(pod, container)
    name = "" if user is not None or image_user.isdecimal() else image_user
    if user is None and not name:
        user = int(image_user)
    profile = app_armor_profile(pod, container)
    found = cri.LinuxContainerSecurityContext(
        privileged=bool(context.privileged),
        namespace_options=namespaces(pod, target_id),
        selinux_options=_selinux(context.se_linux_options or pod_context.se_linux_options),
        run_as_user=_number(user),
        run_as_username=name,
        run_as_group=_number(_first(context.run_as_group, pod_context.run_as_group)),
        readonly_rootfs=bool(context.read_only_root_filesystem),
        supplemental_groups=_groups(pod_context),
        supplemental_groups_policy=_groups_policy(pod_context),
        no_new_privs=context.allow_privilege_escalation is False,
        masked_paths=() if is_unmasked else (*_MASKED, *host.throttle_paths),
        readonly_paths=() if is_unmasked else _READ_ONLY,
        seccomp=_seccomp(context.seccomp_profile or pod_context.seccomp_profile, host),
    )
    if context.capabilities is not None:
        found.capabilities.add_capabilities.extend(context.capabilities.add)
        found.capabilities.drop_capabilities.extend(context.capabilities.drop)
    if profile is not None:
        local = profile.localhost_profile or ""
        found.apparmor.CopyFrom(_profile(profile.type, local))
        found.apparmor_profile = _OLD_APP_ARMOR.get(profile.type, f"localhost/{local}")
    return found


def effective_user(pod: Pod, container: AnyContainer) -> int | None:
    """The user that the spec sets for a container, if any."""
    pod_context, context = pod.spec.security_context or _NO_POD_CONTEXT, container.security_context or _NO_CONTEXT
    return _first(context.run_as_user, pod_context.run_as_user)


def namespaces(pod: Pod, target_id: str = "") -> cri.NamespaceOption:
    """The namespaces that a pod shares with the host, and a container with its pod or with a target container."""
    spec = pod.spec
    if spec.host_users is False and not spec.host_network:
        raise RuntimeFailure("can't set `spec.hostUsers: false`, user namespaces are not supported by this node")
    pid = cri.CONTAINER
    if spec.host_pid:
        pid = cri.NODE
    elif spec.share_process_namespace:
        pid = cri.POD
    elif target_id:
        pid = cri.TARGET
    return cri.NamespaceOption(
        network=cri.NODE if spec.host_network else cri.POD,
        pid=pid,
        ipc=cri.NODE if spec.host_ipc else cri.POD,
        target_id=target_id if pid == cri.TARGET else "",
    )


def _seccomp(profile: SeccompProfile | None, host: CriHost) -> cri.SecurityProfile:
    if profile is None:
        return _profile("RuntimeDefault" if host.seccomp_default else "Unconfined")
    if profile.type != "Localhost":
        return _profile(profile.type)
    if not profile.localhost_profile:
        raise RuntimeFailure("localhostProfile must be set if seccompProfile type is Localhost.")
    return _profile(profile.type, posixpath.join(host.seccomp_root, profile.localhost_profile))


def _profile(kind: str, local: str = "") -> cri.SecurityProfile:
    """A seccomp or AppArmor profile; RuntimeFailure for an unknown type."""
    if kind == "RuntimeDefault":
        return cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault)
    if kind == "Localhost":
        return cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref=local)
    if kind != "Unconfined":
        raise RuntimeFailure(f"there is no seccomp or AppArmor profile of the type {kind!r}")
    return cri.SecurityProfile(profile_type=cri.SecurityProfile.Unconfined)


def _groups(context: PodSecurityContext) -> tuple[int, ...]:
    return (*(() if context.fs_group is None else (context.fs_group,)), *context.supplemental_groups)


def _groups_policy(context: PodSecurityContext) -> Any:
    """The enum value; typed Any because the generated stubs have no class for it."""
    return cri.Strict if context.supplemental_groups_policy == "Strict" else cri.Merge


def _selinux(options: SELinuxOptions | None) -> cri.SELinuxOption | None:
    if options is None:
        return None
    return cri.SELinuxOption(user=options.user, role=options.role, type=options.type, level=options.level)


def _number(value: int | None) -> cri.Int64Value | None:
    return None if value is None else cri.Int64Value(value=value)


def _first(value: int | None, other: int | None) -> int | None:
    return other if value is None else value
