"""Complaints about the security contexts of pods and containers.

Upstream: ValidateSecurityContext, validatePodSpecSecurityContext and validateHostUsers in
pkg/apis/core/validation/validation.go; staging/src/k8s.io/component-helpers/node/util/sysctl/namespace.go
"""

import re

from pykubelet.api.names import byte_length, group_id_errors, user_id_errors
from pykubelet.api.validation.container_walk import containers_with_paths
from pykubelet.api.validation.field_errors import (
    FieldError,
    Named,
    duplicate,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.validation.go_values import security_context_value
from pykubelet.api.validation.profiles import apparmor_errors, seccomp_errors
from pykubelet.api.validation.windows import windows_options_errors
from pykubelet.api.wire import Document

_PROC_MOUNTS = ("Default", "Unmasked")
_GROUP_CHANGES = ("Always", "OnRootMismatch")
_SELINUX_CHANGES = ("MountOption", "Recursive")
_GROUP_POLICIES = ("Merge", "Strict")
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_PATTERN = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_SYSCTL = re.compile(_SYSCTL_PATTERN.removesuffix("$") + r"\Z")
_MAX_SYSCTL_BYTES = 253
_IPC_SYSCTLS = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)


def container_security_errors(context: Document | None, path: str, *, host_users: bool) -> list[FieldError]:
    """What is wrong with the security context of a container; privileged ones are allowed."""
    if context is None:
        return []
    errors = _id_errors(context, path, ("runAsUser", "runAsGroup"))
    mount = context.get("procMount")
    if mount is not None and mount not in _PROC_MOUNTS:
        errors.append(not_supported(f"{path}.procMount", Named(mount), _PROC_MOUNTS))
    if mount == "Unmasked" and host_users:
        errors.append(invalid(f"{path}.procMount", Named(mount), "`hostUsers` must be false to use `Unmasked`"))
    errors += seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += _escalation_errors(context, path)
    errors += windows_options_errors(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + apparmor_errors(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def pod_security_errors(spec: Document, path: str, *, only_recursive_selinux_change: bool) -> list[FieldError]:
    """What is wrong with the security context of the pod."""
    context = spec.get("securityContext", {})
    errors = _id_errors(context, path, ("fsGroup", "runAsUser", "runAsGroup"))
    for index, group in enumerate(context.get("supplementalGroups", ())):
        errors += each_invalid(f"{path}.supplementalGroups[{index}]", group, group_id_errors(group))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    errors += _sysctls_errors(spec, f"{path}.sysctls")
    errors += _choice_errors(context, "fsGroupChangePolicy", _GROUP_CHANGES, path)
    errors += seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += windows_options_errors(context.get("windowsOptions"), f"{path}.windowsOptions")
    errors += apparmor_errors(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    errors += _choice_errors(context, "supplementalGroupsPolicy", _GROUP_POLICIES, path)
    changes = ("Recursive",) if only_recursive_selinux_change else _SELINUX_CHANGES
    return errors + _choice_errors(context, "seLinuxChangePolicy", changes, path)


def user_namespace_errors(spec: Document, path: str) -> list[FieldError]:
    """What a pod in a user namespace of its own may not use."""
    if spec.get("hostUsers", True):
        return []
    detail = "when `hostUsers` is false"
    fields = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    errors = [forbidden(f"{path}.{shown}", detail) for name, shown in fields if spec.get(name)]
    return errors + [
        forbidden(f"{at}.volumeDevices", detail)
        for container, at in containers_with_paths(spec, path)
        if container.get("volumeDevices")
    ]


def _id_errors(context: Document, path: str, names: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in names:
        if (number := context.get(name)) is not None:
            rule = user_id_errors if name == "runAsUser" else group_id_errors
            errors += each_invalid(f"{path}.{name}", number, rule(number))
    return errors


def _escalation_errors(context: Document, path: str) -> list[FieldError]:
    if context.get("allowPrivilegeEscalation", True):
        return []
    shown = security_context_value(context)
    errors: list[FieldError] = []
    if context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, shown, detail))
    for capability in context.get("capabilities", {}).get("add", ()):
        if capability == "CAP_SYS_ADMIN":
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(path, shown, detail))
    return errors


def _choice_errors(context: Document, name: str, choices: tuple[str, ...], path: str) -> list[FieldError]:
    value = context.get(name)
    if value is None or value in choices:
        return []
    return [not_supported(f"{path}.{name}", Named(value), choices)]


def _sysctls_errors(spec: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(spec.get("securityContext", {}).get("sysctls", ())):
        at, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            errors.append(required(at))
        elif byte_length(name) > _MAX_SYSCTL_BYTES or not _SYSCTL.match(name):
            detail = f"must have at most {_MAX_SYSCTL_BYTES} characters and match regex {_SYSCTL_PATTERN}"
            errors.append(invalid(at, name, detail))
        elif name in seen:
            errors.append(duplicate(at, name))
        errors += _host_sysctl_errors(name, spec, at)
        seen.add(name)
    return errors


def _host_sysctl_errors(name: str, spec: Document, path: str) -> list[FieldError]:
    dotted = _dotted(name).partition("*")[0]
    if spec.get("hostNetwork") and dotted.startswith("net."):
        return [invalid(path, name, "may not be specified when 'hostNetwork' is true")]
    if spec.get("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
        return [invalid(path, name, "may not be specified when 'hostIPC' is true")]
    return []


def _dotted(name: str) -> str:
    """The name with dots between its parts; if a slash comes first, slashes are what separates, and dots are theirs."""
    first = next((char for char in name if char in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))
