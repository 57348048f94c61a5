"""Validation of security contexts, seccomp and AppArmor profiles, and operating system fields.

Upstream: pkg/apis/core/validation/validation.go, staging/src/k8s.io/component-helpers/node/util/sysctl/namespace.go,
pkg/api/pod/util.go
"""

import re
from collections.abc import Mapping

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
    too_long,
)
from pykubelet.api.names import byte_length, dns1123_subdomain_errors, group_id_errors, user_id_errors
from pykubelet.api.serializer import Document
from pykubelet.kinds.go_values import internal_form
from pykubelet.kinds.pod.references import descending_path_errors
from pykubelet.kinds.pod.visitors import containers_with_paths
from pykubelet.kinds.rules import OneOf

_SYSTEMS = ("linux", "windows")
_MAX_SPEC_KIB = 64
_DOMAIN_BYTES = 256
_MAX_USER_BYTES = 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_NAME = rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*"
_BAD_USER_CHARACTERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_FOR_WINDOWS = "cannot be set for a windows pod"
_FOR_LINUX = "windows options cannot be set for a linux pod"
# Fields that Windows lacks: the path in the spec, and whether it is in the security context.
_POD_FIELDS = (
    ("appArmorProfile", True),
    ("seLinuxOptions", True),
    ("hostUsers", False),
    ("hostPID", False),
    ("hostIPC", False),
    ("seccompProfile", True),
    ("fsGroup", True),
    ("fsGroupChangePolicy", True),
    ("sysctls", True),
    ("shareProcessNamespace", False),
    ("runAsUser", True),
    ("runAsGroup", True),
    ("supplementalGroups", True),
    ("supplementalGroupsPolicy", True),
    ("seLinuxChangePolicy", True),
)
_CONTAINER_FIELDS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def windows_options_errors(options: Document | None, path: str) -> list[FieldError]:
    """Validates the Windows options of a security context."""
    if options is None:
        return []
    errors: list[FieldError] = []
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        errors += each_invalid(f"{path}.gmsaCredentialSpecName", TypedString(name), dns1123_subdomain_errors(name))
    if (spec := options.get("gmsaCredentialSpec")) is not None:
        at = f"{path}.gmsaCredentialSpec"
        if not spec:
            errors.append(invalid(at, TypedString(spec), "gmsaCredentialSpec cannot be an empty string"))
        elif byte_length(spec) > _MAX_SPEC_KIB * 1024:
            errors.append(invalid(at, TypedString(spec), f"gmsaCredentialSpec size must be under {_MAX_SPEC_KIB} KiB"))
    if (user := options.get("runAsUserName")) is not None:
        errors += each_invalid(f"{path}.runAsUserName", TypedString(user), _user_name_problems(user))
    return errors


def host_process_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the combination of host process containers in a pod."""
    pod_choice = _host_process(spec)
    errors: list[FieldError] = []
    choices: list[bool] = []
    for container, at in containers_with_paths(spec, path):
        own = _host_process(container)
        if pod_choice is not None and own is not None and pod_choice != own:
            shown = "true" if pod_choice else "false"
            detail = f"pod hostProcess value must be identical if both are specified, was {shown}"
            errors.append(invalid(f"{at}.securityContext.windowsOptions.hostProcess", own, detail))
        choices.append(bool(pod_choice if own is None else own))
    if not any(choices):
        return errors
    if not all(choices):
        detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, detail))
    return errors


def operating_system_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates the pod's operating system, and that no field of another one is set."""
    if "os" not in spec:
        return []
    name = spec["os"].get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name not in _SYSTEMS:
        return [not_supported(f"{path}.os", TypedString(name), _SYSTEMS)]
    return _linux_errors(spec, path) if name == "linux" else _windows_errors(spec, path)


def _linux_errors(spec: Document, path: str) -> list[FieldError]:
    holders = [(spec, path), *containers_with_paths(spec, path)]
    return [
        forbidden(f"{at}.securityContext.windowsOptions", _FOR_LINUX)
        for holder, at in holders
        if "windowsOptions" in holder.get("securityContext", {})
    ]


def _windows_errors(spec: Document, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, in_context in _POD_FIELDS:
        holder, at = (spec.get("securityContext", {}), f"{path}.securityContext") if in_context else (spec, path)
        if name in holder:
            errors.append(forbidden(f"{at}.{name}", _FOR_WINDOWS))
    for container, at in containers_with_paths(spec, path):
        context = container.get("securityContext", {})
        errors += [
            forbidden(f"{at}.securityContext.{name}", _FOR_WINDOWS) for name in _CONTAINER_FIELDS if name in context
        ]
    return errors


def _host_process(holder: Document) -> bool | None:
    choice: bool | None = holder.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    return choice


def _user_name_problems(name: str) -> list[str]:
    if not name:
        return ["runAsUserName cannot be an empty string"]
    if _CONTROL.search(name):
        return ["runAsUserName cannot contain control characters"]
    if name.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, backslash, user = name.rpartition("\\")
    problems: list[str] = []
    if byte_length(domain) >= _DOMAIN_BYTES:
        problems.append(f"runAsUserName's Domain length must be under {_DOMAIN_BYTES} characters")
    if backslash and not (_NETBIOS.fullmatch(domain) or re.fullmatch(_DNS_NAME, domain)):
        problems.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    if not user:
        problems.append("runAsUserName's User cannot be empty")
    elif byte_length(user) > _MAX_USER_BYTES:
        problems.append(f"runAsUserName's User length must not be longer than {_MAX_USER_BYTES} characters")
    if user and not user.strip(". "):
        problems.append("runAsUserName's User cannot contain only periods or spaces")
    if _BAD_USER_CHARACTERS.search(user):
        problems.append("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]")
    return problems


SECCOMP_POD_ANNOTATION = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER_PREFIX = "container.seccomp.security.alpha.kubernetes.io/"
APPARMOR_CONTAINER_PREFIX = "container.apparmor.security.beta.kubernetes.io/"
_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_LOCALHOST = "localhost/"
_SECCOMP_WORDS = {"Unconfined": {"unconfined"}, "RuntimeDefault": {"runtime/default", "docker/default"}}
_APPARMOR_WORDS = {"Unconfined": {"unconfined"}, "RuntimeDefault": {"runtime/default"}}
_MAX_PROFILE_BYTES = 4095  # PATH_MAX without the terminating zero.
_PROC_MOUNTS = OneOf(("Default", "Unmasked"))
_GROUP_CHANGES = OneOf(("Always", "OnRootMismatch"))
_GROUP_POLICIES = OneOf(("Merge", "Strict"))
_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL_PATTERN = rf"^({_SEGMENT}[\./])*{_SEGMENT}$"
_SYSCTL = re.compile(_SYSCTL_PATTERN.removesuffix("$") + r"\Z")
_MAX_SYSCTL_BYTES = 253
_IPC_SYSCTLS = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "shm", "msgmax", "msgmnb", "msgmni", "msg")
)


def pod_security_errors(spec: Document, path: str, *, only_recursive_selinux_change: bool) -> list[FieldError]:
    """Validates the security context of the pod."""
    context = spec.get("securityContext", {})
    errors = _id_errors(context, path, ("fsGroup", "runAsUser", "runAsGroup"))
    for index, group in enumerate(context.get("supplementalGroups", ())):
        errors += each_invalid(f"{path}.supplementalGroups[{index}]", group, group_id_errors(group))
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    errors += _sysctls_errors(spec, f"{path}.sysctls")
    errors += _GROUP_CHANGES.errors(context.get("fsGroupChangePolicy"), f"{path}.fsGroupChangePolicy")
    errors += seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += windows_options_errors(context.get("windowsOptions"), f"{path}.windowsOptions")
    errors += apparmor_errors(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    errors += _GROUP_POLICIES.errors(context.get("supplementalGroupsPolicy"), f"{path}.supplementalGroupsPolicy")
    changes = OneOf(("Recursive",) if only_recursive_selinux_change else ("MountOption", "Recursive"))
    return errors + changes.errors(context.get("seLinuxChangePolicy"), f"{path}.seLinuxChangePolicy")


def _id_errors(context: Document, path: str, names: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in names:
        if (number := context.get(name)) is not None:
            rule = user_id_errors if name == "runAsUser" else group_id_errors
            errors += each_invalid(f"{path}.{name}", number, rule(number))
    return errors


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
    """The sysctl name with dots as separators; if a slash comes first, slashes separate and dots are literal."""
    first = next((char for char in name if char in "./"), ".")
    return name if first == "." else name.translate(str.maketrans("./", "/."))


def seccomp_errors(profile: Document | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind = profile.get("type", "")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", TypedString(kind), _TYPES))
    name, at = profile.get("localhostProfile"), f"{path}.localhostProfile"
    if kind != "Localhost":
        if name is not None:
            detail = "can only be set when seccomp type is Localhost"
            errors.append(invalid(at, internal_form(profile, "core.SeccompProfile"), detail))
        return errors
    if name is None:
        return [*errors, required(at, "must be set when seccomp type is Localhost")]
    return errors + descending_path_errors(name, at)


def apparmor_errors(profile: Document | None, path: str) -> list[FieldError]:
    """Validates an AppArmor profile."""
    if profile is None:
        return []
    kind, name, at = profile.get("type", ""), profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in _TYPES:
        return [not_supported(f"{path}.type", TypedString(kind), _TYPES)]
    if kind != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [] if name is None else [invalid(at, TypedString(name), detail)]
    return _apparmor_name_errors(name, at)


def _apparmor_name_errors(name: str | None, path: str) -> list[FieldError]:
    missing = required(path, "must be set when AppArmor type is Localhost")
    if name is None:
        return [missing]
    errors: list[FieldError] = []
    if name != name.strip():
        errors.append(invalid(path, name, "must not be padded with whitespace"))
    elif not name:
        errors.append(missing)
    return [*errors, too_long(path, _MAX_PROFILE_BYTES)] if byte_length(name) > _MAX_PROFILE_BYTES else errors


def container_security_errors(context: Document | None, path: str, *, host_users: bool) -> list[FieldError]:
    """Validates the security context of a container; privileged containers are allowed."""
    if context is None:
        return []
    errors = _id_errors(context, path, ("runAsUser", "runAsGroup"))
    mount = context.get("procMount")
    errors += _PROC_MOUNTS.errors(mount, f"{path}.procMount")
    if mount == "Unmasked" and host_users:
        errors.append(invalid(f"{path}.procMount", TypedString(mount), "`hostUsers` must be false to use `Unmasked`"))
    errors += seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += _escalation_errors(context, path)
    errors += windows_options_errors(context.get("windowsOptions"), f"{path}.windowsOptions")
    return errors + apparmor_errors(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _escalation_errors(context: Document, path: str) -> list[FieldError]:
    if context.get("allowPrivilegeEscalation", True):
        return []
    conflicts = ["`privileged` to true"] if context.get("privileged") else []
    added = context.get("capabilities", {}).get("add", ())
    conflicts += ["`capabilities.Add` CAP_SYS_ADMIN" for capability in added if capability == "CAP_SYS_ADMIN"]
    details = [f"cannot set `allowPrivilegeEscalation` to false and {conflict}" for conflict in conflicts]
    return each_invalid(path, internal_form(context, "core.SecurityContext"), details) if details else []


def user_namespace_errors(spec: Document, path: str) -> list[FieldError]:
    """Validates that a pod with its own user namespace uses neither host namespaces nor block devices."""
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


def profile_annotations_errors(annotations: Mapping[str, str], spec: Document, path: str) -> list[FieldError]:
    """Validates the deprecated profile annotations."""
    errors: list[FieldError] = []
    if SECCOMP_POD_ANNOTATION in annotations:
        value = annotations[SECCOMP_POD_ANNOTATION]
        errors += _seccomp_text_errors(value, f"{path}.{SECCOMP_POD_ANNOTATION}")
    for key, value in annotations.items():
        if key.startswith(SECCOMP_CONTAINER_PREFIX):
            errors += _seccomp_text_errors(value, f"{path}.{key}")
    names = {container.get("name", "") for container, _ in containers_with_paths(spec, "spec")}
    for key, value in annotations.items():
        if not key.startswith(APPARMOR_CONTAINER_PREFIX):
            continue
        container = key.removeprefix(APPARMOR_CONTAINER_PREFIX)
        if container not in names:
            errors.append(invalid(f"{path}[{key}]", container, "container not found"))
        if value not in {"", "runtime/default", "unconfined"} and not value.startswith(_LOCALHOST):
            errors.append(invalid(f"{path}[{key}]", value, f"invalid AppArmor profile name: {go_quote(value)}"))
    return errors


def _seccomp_text_errors(value: str, path: str) -> list[FieldError]:
    if value in {"runtime/default", "docker/default", "unconfined"}:
        return []
    if value.startswith(_LOCALHOST):
        return descending_path_errors(value.removeprefix(_LOCALHOST), path)
    return [invalid(path, value, "must be a valid seccomp profile")]


def apparmor_field(annotation: str) -> Document | None:
    """The profile field equal to a container's annotation; None if the annotation is absent or unknown."""
    name = annotation.removeprefix(_LOCALHOST)
    if name and name != annotation:
        return {"type": "Localhost", "localhostProfile": name}
    return next(({"type": kind} for kind, words in _APPARMOR_WORDS.items() if annotation in words), None)


def profile_match_errors(annotations: Mapping[str, str], spec: Document, path: str) -> list[FieldError]:
    """Validates that profiles in annotations and fields agree."""
    if not any(".security." in key for key in annotations):
        return []
    context = spec.get("securityContext", {})
    errors: list[FieldError] = []
    if "seccompProfile" in context and SECCOMP_POD_ANNOTATION in annotations:
        at = f"{path}.securityContext.seccompProfile"
        errors += _match_errors(annotations[SECCOMP_POD_ANNOTATION], context["seccompProfile"], at, "seccomp")
    for container, at in containers_with_paths(spec, path):
        own = container.get("securityContext", {}).get("seccompProfile")
        key = f"{SECCOMP_CONTAINER_PREFIX}{container.get('name', '')}"
        if own is not None and key in annotations:
            errors += _match_errors(annotations[key], own, f"{at}.securityContext.seccompProfile", "seccomp")
    if spec.get("os", {}).get("name") == "windows":
        return errors
    for container, at in containers_with_paths(spec, path):
        own = container.get("securityContext", {}).get("appArmorProfile", context.get("appArmorProfile"))
        key = f"{APPARMOR_CONTAINER_PREFIX}{container.get('name', '')}"
        if own is not None and key in annotations:
            errors += _match_errors(annotations[key], own, f"{at}.securityContext.appArmorProfile", "apparmor")
    return errors


def _match_errors(annotation: str, profile: Document, path: str, what: str) -> list[FieldError]:
    kind = profile.get("type", "")
    other_type = forbidden(f"{path}.type", f"{what} type in annotation and field must match")
    if kind == "Localhost":
        if not annotation.startswith(_LOCALHOST):
            return [other_type]
        same = annotation.removeprefix(_LOCALHOST) == profile.get("localhostProfile")
        detail = f"{what} profile in annotation and field must match"
        return [] if same else [forbidden(f"{path}.localhostProfile", detail)]
    words = (_SECCOMP_WORDS if what == "seccomp" else _APPARMOR_WORDS).get(kind)
    return [] if words is None or annotation in words else [other_type]
