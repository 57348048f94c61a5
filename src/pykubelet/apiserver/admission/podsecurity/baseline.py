"""The checks of the baseline level, which prevents known privilege escalations.

Upstream: staging/src/k8s.io/pod-security-admission/policy/check_appArmorProfile.go,
staging/src/k8s.io/pod-security-admission/policy/check_capabilities_baseline.go,
staging/src/k8s.io/pod-security-admission/policy/check_hostNamespaces.go,
staging/src/k8s.io/pod-security-admission/policy/check_hostPathVolumes.go,
staging/src/k8s.io/pod-security-admission/policy/check_hostPorts.go,
staging/src/k8s.io/pod-security-admission/policy/check_hostProbesAndhostLifecycle.go,
staging/src/k8s.io/pod-security-admission/policy/check_privileged.go,
staging/src/k8s.io/pod-security-admission/policy/check_procMount.go,
staging/src/k8s.io/pod-security-admission/policy/check_seLinuxOptions.go,
staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_baseline.go,
staging/src/k8s.io/pod-security-admission/policy/check_sysctls.go,
staging/src/k8s.io/pod-security-admission/policy/check_windowsHostProcess.go
"""

from collections.abc import Iterator
from functools import partial

from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.podsecurity.checks import (
    SecurityCheck,
    SecurityFinding,
    containers_of,
    containers_with,
    joined,
    plural,
    security_of,
    setters,
    titled,
)

CAPABILITIES, HOST_PATH_VOLUMES, SECCOMP = "capabilities_baseline", "hostPathVolumes", "seccompProfile_baseline"
PROFILE_TYPES = frozenset({"RuntimeDefault", "Localhost"})
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_SE_LINUX_TYPES = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SAFE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_SAFE_SYSCTLS_27 = _SAFE_SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SAFE_SYSCTLS_29 = _SAFE_SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SAFE_SYSCTLS_32 = _SAFE_SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")


def _app_armor_profile(metadata: Document, spec: Document) -> SecurityFinding | None:
    def bad_type(security: Document) -> str:
        profile = security.get("appArmorProfile")
        return "" if profile is None or profile.get("type") in PROFILE_TYPES else str(profile.get("type", ""))

    of_pod, names = bad_type(security_of(spec)), containers_with(spec, bad_type)
    values = sorted({of_pod, *(bad_type(security_of(one)) for one in containers_of(spec))} - {""})
    annotations = sorted(
        f"{key}={go_quote(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APP_ARMOR) and value not in {"", "runtime/default"} and not value.startswith("localhost/")
    )
    who = [setters(names, pod=bool(of_pod)), plural("annotation", annotations) if annotations else ""]
    if not any(who):
        return None
    shown = [*values, *annotations]
    detail = f"{' and '.join(filter(None, who))} must not set AppArmor profile type to {joined(shown)}"
    return SecurityFinding(plural("forbidden AppArmor profile", shown), detail)


def _capabilities(_metadata: Document, spec: Document) -> SecurityFinding | None:
    def added(security: Document) -> set[str]:
        return set((security.get("capabilities") or {}).get("add") or ()) - _DEFAULT_CAPABILITIES

    if not (names := containers_with(spec, added)):
        return None
    values = sorted(set[str]().union(*(added(security_of(one)) for one in containers_of(spec))))
    detail = f"{titled('container', names)} must not include {joined(values)} in securityContext.capabilities.add"
    return SecurityFinding("non-default capabilities", detail)


def _host_namespaces(_metadata: Document, spec: Document) -> SecurityFinding | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return SecurityFinding("host namespaces", ", ".join(shared)) if shared else None


def _host_path_volumes(_metadata: Document, spec: Document) -> SecurityFinding | None:
    names = [volume["name"] for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    return SecurityFinding("hostPath volumes", titled("volume", names)) if names else None


def _host_ports(_metadata: Document, spec: Document) -> SecurityFinding | None:
    used = {
        container["name"]: {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        for container in containers_of(spec)
    }
    names, ports = [name for name, own in used.items() if own], sorted(set[str]().union(*used.values()))
    detail = f"{titled('container', names)} {_use(names)} {plural('hostPort', ports)} {', '.join(ports)}"
    return SecurityFinding("hostPort", detail) if names else None


def _use(names: list[str]) -> str:
    return "uses" if len(names) == 1 else "use"


def _hosts(container: Document) -> Iterator[str]:
    """The hosts that probes and lifecycle handlers of a container name."""
    handlers = [container.get(name) for name in _PROBES]
    handlers += [(container.get("lifecycle") or {}).get(name) for name in _HOOKS]
    for handler in filter(None, handlers):
        for action in ("httpGet", "tcpSocket"):
            if host := (handler.get(action) or {}).get("host"):
                yield host


def _probe_hosts(_metadata: Document, spec: Document) -> SecurityFinding | None:
    used = {container["name"]: set(_hosts(container)) for container in containers_of(spec)}
    names, hosts = sorted(name for name, own in used.items() if own), sorted(set[str]().union(*used.values()))
    what = plural("probe or lifecycle host", hosts)
    detail = f"{titled('container', names)} {_use(names)} {what} {joined(hosts)}"
    return SecurityFinding("probe or lifecycle host", detail) if names else None


def _privileged(_metadata: Document, spec: Document) -> SecurityFinding | None:
    names = containers_with(spec, lambda security: security.get("privileged"))
    detail = f"{titled('container', names)} must not set securityContext.privileged=true"
    return SecurityFinding("privileged", detail) if names else None


def _proc_mount(_metadata: Document, spec: Document) -> SecurityFinding | None:
    def bad_mount(security: Document) -> str:
        mount: str = security.get("procMount") or "Default"
        return "" if mount == "Default" else mount

    names = containers_with(spec, bad_mount)
    values = sorted({bad_mount(security_of(one)) for one in containers_of(spec)} - {""})
    detail = f"{titled('container', names)} must not set securityContext.procMount to {joined(values)}"
    return SecurityFinding("procMount", detail) if names else None


def _se_linux_options(_metadata: Document, spec: Document, *, types: frozenset[str]) -> SecurityFinding | None:
    def is_bad(security: Document) -> bool:
        options = security.get("seLinuxOptions") or {}
        return bool(options.get("type", "") not in types or options.get("user") or options.get("role"))

    of_pod, names = is_bad(security_of(spec)), containers_with(spec, is_bad)
    if not (of_pod or names):
        return None
    options = [security_of(one).get("seLinuxOptions") or {} for one in (spec, *containers_of(spec))]
    values = sorted({one.get("type", "") for one in options} - types)
    problems = [titled("type", values)] if values else []
    problems += [f"{name} may not be set" for name in ("user", "role") if any(one.get(name) for one in options)]
    detail = f"{setters(names, pod=of_pod)} set forbidden securityContext.seLinuxOptions: {'; '.join(problems)}"
    return SecurityFinding("seLinuxOptions", detail)


def _seccomp_annotations(metadata: Document, spec: Document) -> SecurityFinding | None:
    annotations = metadata.get("annotations") or {}
    keys = {_SECCOMP, *(f"{_SECCOMP_OF_CONTAINER}{container['name']}" for container in containers_of(spec))}
    bad = sorted(
        f"{key}={go_quote(annotations[key])}"
        for key in keys & annotations.keys()
        if annotations[key] not in {"runtime/default", "docker/default"}
        and not annotations[key].startswith("localhost/")
    )
    return SecurityFinding("seccompProfile", f"forbidden {plural('annotation', bad)} {', '.join(bad)}") if bad else None


def bad_seccomp_type(security: Document) -> str | None:
    """The type of the seccomp profile if it is forbidden; None if it is allowed or not set."""
    profile = security.get("seccompProfile")
    return None if profile is None or profile.get("type") in PROFILE_TYPES else str(profile.get("type", ""))


def seccomp_profile(_metadata: Document, spec: Document) -> SecurityFinding | None:
    """Reports forbidden profiles; no profile is allowed."""
    of_pod = bad_seccomp_type(security_of(spec))
    names = containers_with(spec, lambda security: bad_seccomp_type(security) is not None)
    found = {of_pod, *(bad_seccomp_type(security_of(one)) for one in containers_of(spec))}
    values = sorted(value for value in found if value is not None)
    who = setters(names, pod=of_pod is not None)
    detail = f"{who} must not set securityContext.seccompProfile.type to {joined(values)}"
    return SecurityFinding("seccompProfile", detail) if who else None


def _sysctls(_metadata: Document, spec: Document, *, safe: frozenset[str]) -> SecurityFinding | None:
    names = [one["name"] for one in security_of(spec).get("sysctls") or () if one["name"] not in safe]
    return SecurityFinding("forbidden sysctls", ", ".join(names)) if names else None


def _windows_host_process(_metadata: Document, spec: Document) -> SecurityFinding | None:
    def is_bad(security: Document) -> bool:
        return bool((security.get("windowsOptions") or {}).get("hostProcess"))

    who = setters(containers_with(spec, is_bad), pod=is_bad(security_of(spec)))
    detail = f"{who} must not set securityContext.windowsOptions.hostProcess=true"
    return SecurityFinding("hostProcess", detail) if who else None


BASELINE = (
    SecurityCheck("appArmorProfile", ((0, _app_armor_profile),)),
    SecurityCheck(CAPABILITIES, ((0, _capabilities),)),
    SecurityCheck("hostNamespaces", ((0, _host_namespaces),)),
    SecurityCheck(HOST_PATH_VOLUMES, ((0, _host_path_volumes),)),
    SecurityCheck("hostPorts", ((0, _host_ports),)),
    SecurityCheck("hostProbesAndHostLifecycle", ((34, _probe_hosts),)),
    SecurityCheck("privileged", ((0, _privileged),)),
    SecurityCheck("procMount", ((0, _proc_mount),)),
    SecurityCheck(
        "seLinuxOptions",
        (
            (0, partial(_se_linux_options, types=_SE_LINUX_TYPES)),
            (31, partial(_se_linux_options, types=_SE_LINUX_TYPES | {"container_engine_t"})),
        ),
    ),
    SecurityCheck(SECCOMP, ((0, _seccomp_annotations), (19, seccomp_profile))),
    SecurityCheck(
        "sysctls",
        (
            (0, partial(_sysctls, safe=_SAFE_SYSCTLS)),
            (27, partial(_sysctls, safe=_SAFE_SYSCTLS_27)),
            (29, partial(_sysctls, safe=_SAFE_SYSCTLS_29)),
            (32, partial(_sysctls, safe=_SAFE_SYSCTLS_32)),
        ),
    ),
    SecurityCheck("windowsHostProcess", ((0, _windows_host_process),)),
)
