"""Warnings about pods and pod templates: containers, volumes, node selection, names.

Upstream: pkg/api/pod/warnings.go, pkg/registry/core/pod/strategy.go
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from pykubelet.api.field_errors import go_quote
from pykubelet.api.names import dns1123_label_errors
from pykubelet.api.serializer import Document
from pykubelet.kinds.addresses import ip_warnings
from pykubelet.kinds.kind import as_many_as_sent
from pykubelet.kinds.node import DEPRECATED_LABELS, selector_term_warnings
from pykubelet.kinds.persistent_volume_claim import claim_spec_warnings
from pykubelet.kinds.pod.scheduling import PREFERRED, REQUIRED
from pykubelet.kinds.pod.security import (
    APPARMOR_CONTAINER_PREFIX,
    SECCOMP_CONTAINER_PREFIX,
    SECCOMP_POD_ANNOTATION,
    apparmor_errors,
    apparmor_field,
)
from pykubelet.kinds.pod.visitors import containers_with_paths
from pykubelet.kinds.pod.volume_sources import REMOVED_STORAGE_WARNINGS
from pykubelet.kinds.resources import fraction_warnings

USE_SECCOMP_FIELD = 'non-functional in v1.27+; use the "seccompProfile" field instead'
USE_APPARMOR_FIELD = 'deprecated since v1.30; use the "appArmorProfile" field instead'
# Sources of files: the field in volumes and in projections, upstream's word for it, and the fields with its name.
_OF_FILES = (
    ("configMap", "ConfigMap", "name", "name"),
    ("secret", "Secret", "secretName", "name"),
    ("downwardAPI", "DownwardAPI", "", ""),
)
_CERTIFICATE_PATHS = {
    "certificateChainPath": "PodCertificate chain",
    "keyPath": "PodCertificate key",
    "credentialBundlePath": "PodCertificate credential bundle",
}
_REMOVED_SOURCES = frozenset(REMOVED_STORAGE_WARNINGS)
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_MATCHES_NO_POD = "a null labelSelector results in matching no pod"
_IN_POD = "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
_IN_PODS = (
    "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended"
)
# The paths of a volume's files are compared up to so many parts and pairs: many times what fits into one volume.
_MAX_PATH_STEPS = 100_000
# Most pods have none of these fields; only their containers are checked.
_SCHEDULING = frozenset({"nodeSelector", "affinity", "topologySpreadConstraints"})
_REFERENCES = frozenset({"hostAliases", "imagePullSecrets", "overhead"})


class _File(NamedTuple):
    """A path in a volume, the type of its source, and the source's name if a volume can have several of them."""

    path: str
    kind: str = ""
    name: str | None = None

    def __str__(self) -> str:
        return f"{go_quote(self.path)} ({_source_text(self.kind, self.name)})" if self.kind else go_quote(self.path)


def pod_warnings(pod: Document) -> list[str]:
    """Warns about a new pod."""
    return name_warnings(pod, _IN_POD) + _warnings(pod, "")


def name_warnings(document: Document, why: str = _IN_PODS) -> list[str]:
    """Warns about a name that becomes part of pod names and thus of host names."""
    errors = dns1123_label_errors(document["metadata"].get("name", ""))
    return [f"metadata.name: {why}: [{' '.join(errors)}]"] if errors else []


def _warnings(pod: Document, prefix: str) -> list[str]:
    spec, annotations = pod.get("spec", {}), pod.get("metadata", {}).get("annotations", {})
    path, annotations_at = f"{prefix}spec", f"{prefix}metadata.annotations"
    warnings: list[str] = []
    if not _SCHEDULING.isdisjoint(spec):
        warnings += _node_warnings(spec, path)
    if annotations:
        warnings += [
            f"{annotations_at}[{key}]: {text}" for key, text in _DEPRECATED_ANNOTATIONS.items() if key in annotations
        ]
    if volumes := spec.get("volumes"):
        warnings += pod_volume_warnings(volumes, f"{path}.volumes")
    if not _REFERENCES.isdisjoint(spec):
        warnings += _reference_warnings(spec, path)
    if SECCOMP_POD_ANNOTATION in annotations and "seccompProfile" not in spec.get("securityContext", {}):
        warnings.append(f"{annotations_at}[{SECCOMP_POD_ANNOTATION}]: {USE_SECCOMP_FIELD}")
    warnings += container_warnings(spec, annotations, prefix)
    warnings += port_warnings(spec, path)
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        warnings.append(
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    if affinity := spec.get("affinity"):
        warnings += _pod_affinity_warnings(affinity, f"{path}.affinity")
    for index, server in enumerate(spec.get("dnsConfig", {}).get("nameservers", ())):
        warnings += ip_warnings(server, f"{path}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases", ())):
        warnings += ip_warnings(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
    return warnings


def _node_warnings(spec: Document, path: str) -> list[str]:
    """Warns about the node selection; upstream returns those about the selector in no order."""
    selector = spec.get("nodeSelector", {})
    warnings = [
        f"{path}.nodeSelector[{key}]: {DEPRECATED_LABELS[key]}" for key in sorted(selector) if key in DEPRECATED_LABELS
    ]
    affinity, at = spec.get("affinity", {}).get("nodeAffinity", {}), f"{path}.affinity.nodeAffinity"
    for index, term in enumerate(affinity.get(REQUIRED, {}).get("nodeSelectorTerms", ())):
        warnings += selector_term_warnings(term, f"{at}.{REQUIRED}.nodeSelectorTerms[{index}]")
    for index, term in enumerate(affinity.get(PREFERRED, ())):
        preference = term.get("preference", {})
        warnings += selector_term_warnings(preference, f"{at}.{PREFERRED}[{index}].preference", checks_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        at, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        if text := DEPRECATED_LABELS.get(key):
            warnings.append(f"{at}.topologyKey: {key} is {text}")
        if "labelSelector" not in constraint:
            warnings.append(f"{at}.labelSelector: {_MATCHES_NO_POD}")
    return warnings


def pod_volume_warnings(volumes: list[Document], path: str) -> list[str]:
    """Warns about the volumes of a pod: first about removed systems, then about overlapping files."""
    warnings: list[str] = []
    for index, volume in enumerate(volumes):
        if not _REMOVED_SOURCES.isdisjoint(volume):
            warnings += [f"{path}[{index}].{text}" for kind, text in REMOVED_STORAGE_WARNINGS.items() if kind in volume]
        elif template := volume.get("ephemeral", {}).get("volumeClaimTemplate"):
            at = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
            warnings += claim_spec_warnings(template.get("spec", {}), at)
    for volume in volumes:
        if (projected := volume.get("projected")) is not None:
            warnings += as_many_as_sent(_projected_warnings(projected, volume.get("name", "")))
        else:
            warnings += as_many_as_sent(_overlap_warnings(volume))
    return warnings


def _projected_warnings(projected: Document, name: str) -> Iterator[str]:
    files = _VolumeFiles()
    for source in projected.get("sources", ()):
        if not source:
            yield f"volume {go_quote(name)} (Projected) has no sources provided"
            continue
        for overlap in files.overlaps(_projected_files(source)):
            yield f"volume {go_quote(name)} (Projected): overlapping paths: {overlap}"


class _Folder:
    """A folder or file of a volume: its entries, its files, and those of everything below it, by their numbers."""

    __slots__ = ("below", "entries", "files")

    def __init__(self) -> None:
        self.entries: dict[str, _Folder] = {}
        self.files: list[int] = []
        self.below: list[int] = []


class _VolumeFiles:
    """The files of one volume, as a tree of their paths."""

    def __init__(self) -> None:
        self._root = _Folder()
        self._files: dict[_File, int] = {}
        self._shown: list[_File] = []
        self._steps = 0

    def overlaps(self, files: Iterable[_File]) -> Iterator[str]:
        """The pairs of a file and an earlier one with equal or nested paths; adds the files."""
        for named in files:
            file = named._replace(path=named.path.rstrip("/")) if named.path.endswith("/") else named
            if not file.path:
                continue
            folders = self._folders(file.path)
            if self._steps > _MAX_PATH_STEPS:
                return
            *outer, own = folders
            others = sorted({*chain.from_iterable(folder.files for folder in outer), *own.below})
            self._steps += len(others)
            yield from (f"{file} with {self._shown[number]}" for number in others)
            if self._files.setdefault(file, len(self._shown)) == len(self._shown):
                own.files.append(len(self._shown))
                for folder in folders:
                    folder.below.append(len(self._shown))
                self._shown.append(file)

    def _folders(self, path: str) -> list[_Folder]:
        """The folder of each part of a path, from the outermost to the path's own; new ones are empty."""
        parts = path.split("/")
        self._steps += len(parts)
        folder, found = self._root, list[_Folder]()
        for part in parts if self._steps <= _MAX_PATH_STEPS else ():
            folder = folder.entries.setdefault(part, _Folder())
            found.append(folder)
        return found


def _projected_files(source: Document) -> list[_File]:
    """The files of one source of a projected volume."""
    for kind, shown, _, name_field in _OF_FILES:
        if kind in source and (items := source[kind].get("items")):
            name = source[kind].get(name_field, "") if name_field else None
            return [_File(item.get("path", ""), shown, name) for item in items]
    if (token := source.get("serviceAccountToken")) is not None:
        return [_File(token.get("path", ""), "ServiceAccountToken")]
    if (bundle := source.get("clusterTrustBundle")) is not None:
        name = bundle.get("name", bundle.get("signerName", ""))
        return [_File(bundle.get("path", ""), "ClusterTrustBundle", name)]
    certificate = source.get("podCertificate", {})
    return [_File(certificate[key], shown) for key, shown in _CERTIFICATE_PATHS.items() if certificate.get(key)]


def _overlap_warnings(volume: Document) -> Iterator[str]:
    for kind, shown, name_field, _ in _OF_FILES:
        if len(items := (source := volume.get(kind, {})).get("items", ())) > 1:
            what = _source_text(shown, source.get(name_field, "") if name_field else None)
            name = go_quote(volume.get("name", ""))
            for overlap in _VolumeFiles().overlaps(_File(item.get("path", "")) for item in items):
                yield f"volume {name} ({what}): overlapping paths: {overlap}"
            return


def _source_text(kind: str, name: str | None) -> str:
    return kind if name is None else f"{kind} {go_quote(name)}"


def _reference_warnings(spec: Document, path: str) -> list[str]:
    secrets = [secret.get("name", "") for secret in spec.get("imagePullSecrets", ())]
    warnings = [
        f"{path}.hostAliases[{index}].ip: duplicate ip {go_quote(ip)}"
        for index, ip in _repeated(alias.get("ip", "") for alias in spec.get("hostAliases", ()))
    ]
    warnings += [
        f"{path}.imagePullSecrets[{index}].name: duplicate name {go_quote(name)}" for index, name in _repeated(secrets)
    ]
    warnings += [
        f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'
        for index, name in enumerate(secrets)
        if not name
    ]
    overhead = spec.get("overhead", {})
    for resource in ("memory", "ephemeral-storage"):
        warnings += fraction_warnings(overhead, resource, f"{path}.overhead")
    return warnings


def _repeated(values: Iterable[str]) -> list[tuple[int, str]]:
    """The values that appeared before, with their indexes."""
    seen: set[str] = set()
    found: list[tuple[int, str]] = []
    for index, value in enumerate(values):
        if value in seen:
            found.append((index, value))
        seen.add(value)
    return found


def container_warnings(spec: Document, annotations: Mapping[str, str], prefix: str) -> list[str]:
    """Warns about all containers except for ports; `prefix` is the path of the pod or template."""
    warnings: list[str] = []
    pod_profile = spec.get("securityContext", {}).get("appArmorProfile")
    for container, path in containers_with_paths(spec, f"{prefix}spec"):
        if annotations:
            keys = _deprecated_annotations(container, annotations, pod_profile, is_template=bool(prefix))
            warnings += [f"{prefix}metadata.annotations[{key}]: {text}" for key, text in keys.items()]
        if resources := container.get("resources"):
            for resource in ("memory", "ephemeral-storage"):
                for kind in ("limits", "requests"):
                    if resource in (amounts := resources.get(kind, ())):
                        warnings += fraction_warnings(amounts, resource, f"{path}.resources.{kind}")
        if len(env := container.get("env", ())) > 1:
            warnings += _env_warnings(env, f"{path}.env")
    return warnings


def _deprecated_annotations(
    container: Document, annotations: Mapping[str, str], pod_profile: Document | None, *, is_template: bool
) -> dict[str, str]:
    context, name = container.get("securityContext", {}), container.get("name", "")
    found: dict[str, str] = {}
    if (key := f"{SECCOMP_CONTAINER_PREFIX}{name}") in annotations and "seccompProfile" not in context:
        found[key] = USE_SECCOMP_FIELD
    key = f"{APPARMOR_CONTAINER_PREFIX}{name}"
    # The annotations of a pod itself become fields when it is read, with a warning of their own.
    if is_template and key in annotations and "appArmorProfile" not in context:
        profile = apparmor_field(annotations[key])
        if profile is None or profile != pod_profile:
            found[key] = USE_APPARMOR_FIELD
    return found


def _env_warnings(env: list[Document], path: str) -> list[str]:
    """Warns about variables that are set again and do not use their previous value."""
    warnings: list[str] = []
    names: set[str] = set()
    for index, variable in enumerate(env):
        name, value = variable.get("name", ""), variable.get("value", "")
        if name not in names:
            names.add(name)
            continue
        reference = f"$({name})"
        if "valueFrom" in variable or value == reference or reference not in value:
            warnings.append(
                f"{path}[{index}]: hides previous definition of {go_quote(name)}, which may be dropped when using apply"
            )
    return warnings


def port_warnings(spec: Document, path: str) -> list[str]:
    """Warns about the ports of all containers together: first their numbers, then their names."""
    ports = [
        (port, f"{at}.ports[{index}]")
        for container, at in containers_with_paths(spec, path)
        if "ports" in container
        for index, port in enumerate(container["ports"])
    ]
    # Most pods have one port at most, which cannot collide.
    if len(ports) > 1 or (ports and "hostIP" in ports[0][0]):
        return [*as_many_as_sent(_number_warnings(ports)), *_name_warnings(ports)]
    return []


def _number_warnings(ports: list[tuple[Document, str]]) -> Iterator[str]:
    # The indexes of earlier ports by number, protocol, and as much of the host address as decides about a collision.
    earlier: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for index, (port, path) in enumerate(ports):
        ip, host_port = port.get("hostIP", ""), port.get("hostPort", 0)
        if ip and not host_port:
            yield f"{path}: hostIP set without hostPort: {_port_text(port)}"
        number = (port.get("containerPort", 0), port.get("protocol", ""))
        keys: list[tuple[object, ...]] = [number]
        if host_port:
            same_port = [(number, host_port, ip), (number, host_port, "")] if ip else [(number, host_port)]
            keys = [(number, 0), *same_port]
        for other in sorted(chain.from_iterable(earlier[key] for key in keys)):
            yield f"{path}: {_collision(port, ports[other][0])} with {ports[other][1]}"
        for key in (number, (number, host_port), (number, host_port, ip)):
            earlier[key].append(index)


def _port_text(port: Document) -> str:
    """A port as Go prints its value."""
    name, host_port, number = port.get("name", ""), port.get("hostPort", 0), port.get("containerPort", 0)
    protocol, ip = port.get("protocol", ""), port.get("hostIP", "")
    return f"{{Name:{name} HostPort:{host_port} ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}"


def _collision(port: Document, other: Document) -> str:
    """The warning about two ports of one number and protocol whose host addresses do not tell them apart."""
    (ip, host_port), (other_ip, other_host_port) = (
        (each.get("hostIP", ""), each.get("hostPort", 0)) for each in (port, other)
    )
    if (ip, host_port) == (other_ip, other_host_port):
        return "duplicate port definition"
    if not host_port or not other_host_port:
        return "overlapping port definition"
    return "dangerously ambiguous port definition"


def _name_warnings(ports: list[tuple[Document, str]]) -> list[str]:
    warnings: list[str] = []
    first: dict[str, str] = {}
    for port, path in ports:
        if (name := port.get("name", "")) and (other := first.setdefault(name, path)) != path:
            warnings.append(
                f"{path}: duplicate port name {go_quote(name)} with {other}, services and probes that select ports by "
                f"name will use {other}"
            )
    return warnings


def _pod_affinity_warnings(affinity: Document, path: str) -> list[str]:
    warnings: list[str] = []
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind, {})
        warnings += [
            f"{path}.{kind}.{REQUIRED}[{index}].labelSelector: {_MATCHES_NO_POD}"
            for index, term in enumerate(terms.get(REQUIRED, ()))
            if "labelSelector" not in term
        ]
        warnings += [
            f"{path}.{kind}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {_MATCHES_NO_POD}"
            for index, term in enumerate(terms.get(PREFERRED, ()))
            if "labelSelector" not in term.get("podAffinityTerm", {})
        ]
    return warnings


def template_warnings(template: Document, path: str) -> list[str]:
    """Warns about the pod template at this path."""
    return _warnings(template, f"{path}.")


def apparmor_warnings(pod: Document) -> list[str]:
    """Warns about AppArmor annotations of a pod as received, unless they are invalid or repeat the fields."""
    annotations, spec = pod["metadata"].get("annotations", {}), pod["spec"]
    if not any(key.startswith(APPARMOR_CONTAINER_PREFIX) for key in annotations):
        return []
    if spec.get("os", {}).get("name") == "windows":
        return []
    pod_profile = spec.get("securityContext", {}).get("appArmorProfile")
    warnings: list[str] = []
    for container, _ in containers_with_paths(spec, ""):
        key = f"{APPARMOR_CONTAINER_PREFIX}{container.get('name', '')}"
        if key in annotations and "appArmorProfile" not in container.get("securityContext", {}):
            profile = apparmor_field(annotations[key])
            if profile is None or profile != pod_profile or apparmor_errors(profile, ""):
                warnings.append(f"metadata.annotations[{key}]: {USE_APPARMOR_FIELD}")
    return warnings


def pod_status_warnings(pod: Document, _old: Document) -> list[str]:
    """Warns about the addresses in a pod's status."""
    status = pod.get("status", {})
    return [
        warning
        for kind in ("podIPs", "hostIPs")
        for index, each in enumerate(status.get(kind, ()))
        for warning in ip_warnings(each.get("ip", ""), f"status.{kind}[{index}].ip")
    ]
