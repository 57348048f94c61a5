"""The checks of the restricted level, which requires hardened pods.

Upstream: staging/src/k8s.io/pod-security-admission/policy/check_allowPrivilegeEscalation.go,
staging/src/k8s.io/pod-security-admission/policy/check_capabilities_restricted.go,
staging/src/k8s.io/pod-security-admission/policy/check_restrictedVolumes.go,
staging/src/k8s.io/pod-security-admission/policy/check_runAsNonRoot.go,
staging/src/k8s.io/pod-security-admission/policy/check_runAsUser.go,
staging/src/k8s.io/pod-security-admission/policy/check_seccompProfile_restricted.go
"""

from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.podsecurity.baseline import CAPABILITIES, HOST_PATH_VOLUMES, SECCOMP, seccomp_profile
from pykubelet.apiserver.admission.podsecurity.checks import (
    CheckPod,
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

_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)


def _allow_privilege_escalation(_metadata: Document, spec: Document) -> SecurityFinding | None:
    names = containers_with(spec, lambda security: security.get("allowPrivilegeEscalation") is not False)
    detail = f"{titled('container', names)} must set securityContext.allowPrivilegeEscalation=false"
    return SecurityFinding("allowPrivilegeEscalation != false", detail) if names else None


def _capabilities(_metadata: Document, spec: Document) -> SecurityFinding | None:
    def drops(security: Document) -> bool:
        return "ALL" in ((security.get("capabilities") or {}).get("drop") or ())

    def added(security: Document) -> set[str]:
        return set((security.get("capabilities") or {}).get("add") or ()) - {"NET_BIND_SERVICE"}

    details: list[str] = []
    if missing := containers_with(spec, lambda security: not drops(security)):
        details.append(f'{titled("container", missing)} must set securityContext.capabilities.drop=["ALL"]')
    if adding := containers_with(spec, added):
        values = joined(sorted(set[str]().union(*(added(security_of(one)) for one in containers_of(spec)))))
        details.append(f"{titled('container', adding)} must not include {values} in securityContext.capabilities.add")
    return SecurityFinding("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(_metadata: Document, spec: Document) -> SecurityFinding | None:
    bad = [
        (volume["name"], next((source for source in volume if source != "name"), "unknown"))
        for volume in spec.get("volumes") or ()
        if _VOLUMES.isdisjoint(volume)
    ]
    names, types = [name for name, _ in bad], sorted({source for _, source in bad})
    verb = "uses" if len(names) == 1 else "use"
    detail = f"{titled('volume', names)} {verb} {plural('restricted volume type', types)} {joined(types)}"
    return SecurityFinding("restricted volume types", detail) if bad else None


def _run_as_non_root(_metadata: Document, spec: Document) -> SecurityFinding | None:
    reason, of_pod = "runAsNonRoot != true", security_of(spec).get("runAsNonRoot")
    explicit = containers_with(spec, lambda security: security.get("runAsNonRoot") is False)
    if who := setters(explicit, pod=of_pod is False):
        return SecurityFinding(reason, f"{who} must not set securityContext.runAsNonRoot=false")
    implicit = [] if of_pod else containers_with(spec, lambda security: security.get("runAsNonRoot") is None)
    detail = f"pod or {titled('container', implicit)} must set securityContext.runAsNonRoot=true"
    return SecurityFinding(reason, detail) if implicit else None


def _run_as_user(_metadata: Document, spec: Document) -> SecurityFinding | None:
    def is_root(security: Document) -> bool:
        return security.get("runAsUser") == 0

    who = setters(containers_with(spec, is_root), pod=is_root(security_of(spec)))
    return SecurityFinding("runAsUser=0", f"{who} must not set runAsUser=0") if who else None


def _seccomp_profile(metadata: Document, spec: Document) -> SecurityFinding | None:
    forbidden = seccomp_profile(metadata, spec)
    if forbidden is not None or security_of(spec).get("seccompProfile") is not None:
        return forbidden
    names = containers_with(spec, lambda security: security.get("seccompProfile") is None)
    needed = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return SecurityFinding("seccompProfile", f"pod or {titled('container', names)} {needed}") if names else None


def _on_linux(check: CheckPod) -> CheckPod:
    """The check for pods that may run on Linux; the fields of others are rejected by validation."""

    def checked(metadata: Document, spec: Document) -> SecurityFinding | None:
        return None if (spec.get("os") or {}).get("name") == "windows" else check(metadata, spec)

    return checked


def _of_all_systems_before_25(since: int, check: CheckPod) -> tuple[tuple[int, CheckPod], ...]:
    return ((since, check), (25, _on_linux(check)))


RESTRICTED = (
    SecurityCheck("allowPrivilegeEscalation", _of_all_systems_before_25(8, _allow_privilege_escalation)),
    SecurityCheck("capabilities_restricted", _of_all_systems_before_25(22, _capabilities), CAPABILITIES),
    SecurityCheck("restrictedVolumes", ((0, _volumes),), HOST_PATH_VOLUMES),
    SecurityCheck("runAsNonRoot", ((0, _run_as_non_root),)),
    SecurityCheck("runAsUser", ((23, _run_as_user),)),
    SecurityCheck("seccompProfile_restricted", _of_all_systems_before_25(19, _seccomp_profile), SECCOMP),
)
