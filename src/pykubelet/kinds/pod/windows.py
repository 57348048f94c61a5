"""Validation of fields that exist only on Windows or only on Linux.

Upstream: pkg/apis/core/validation/validation.go
"""

import re

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    each_invalid,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.names import byte_length, dns1123_subdomain_errors
from pykubelet.api.serializer import Document
from pykubelet.kinds.pod.visitors import containers_with_paths

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


def _host_process(holder: Document) -> bool | None:
    choice: bool | None = holder.get("securityContext", {}).get("windowsOptions", {}).get("hostProcess")
    return choice


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
