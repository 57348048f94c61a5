"""Warnings about the volumes of a pod: systems that are gone, and files over each other.

Upstream: pkg/api/pod/warnings.go
"""

from typing import NamedTuple

from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.warnings.storage import GONE_SYSTEMS, claim_spec_warnings
from pykubelet.api.wire import Document

# What makes files: its field in volumes and in projections, upstream's word for it, and the fields that name it.
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
_GONE = frozenset(GONE_SYSTEMS)


class _File(NamedTuple):
    """A path within a volume; what puts a file there, and the name of that, if there are several of its kind."""

    path: str
    kind: str = ""
    name: str | None = None

    def __str__(self) -> str:
        return f"{go_quote(self.path)} ({_named(self.kind, self.name)})" if self.kind else go_quote(self.path)


def pod_volume_warnings(volumes: list[Document], path: str) -> list[str]:
    """About the volumes of a pod: first all systems, then all files."""
    warnings: list[str] = []
    for index, volume in enumerate(volumes):
        if not _GONE.isdisjoint(volume):
            warnings += [f"{path}[{index}].{said}" for kind, said in GONE_SYSTEMS.items() if kind in volume]
        elif template := volume.get("ephemeral", {}).get("volumeClaimTemplate"):
            at = f"{path}[{index}].ephemeral.volumeClaimTemplate.spec"
            warnings += claim_spec_warnings(template.get("spec", {}), at)
    for volume in volumes:
        if (projected := volume.get("projected")) is not None:
            warnings += _projected_warnings(projected, volume.get("name", ""))
        else:
            warnings += _overlap_warnings(volume)
    return warnings


def _overlap_warnings(volume: Document) -> list[str]:
    for kind, shown, name_field, _ in _OF_FILES:
        if len(items := (source := volume.get(kind, {})).get("items", ())) > 1:
            overlaps = _overlaps([], [_File(item.get("path", "")) for item in items])
            what = _named(shown, source.get(name_field, "") if name_field else None)
            name = go_quote(volume.get("name", ""))
            return [f"volume {name} ({what}): overlapping paths: {overlap}" for overlap in overlaps]
    return []


def _projected_warnings(projected: Document, name: str) -> list[str]:
    warnings: list[str] = []
    before: list[_File] = []
    for source in projected.get("sources", ()):
        if source:
            overlaps = _overlaps(before, _projected_files(source))
            warnings += [f"volume {go_quote(name)} (Projected): overlapping paths: {overlap}" for overlap in overlaps]
        else:
            warnings.append(f"volume {go_quote(name)} (Projected) has no sources provided")
    return warnings


def _projected_files(source: Document) -> list[_File]:
    """The files of a source of a projected volume, which is of one kind."""
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


def _overlaps(before: list[_File], files: list[_File]) -> list[str]:
    """Each file with each earlier one that it is, holds or lies in; the files join the earlier ones."""
    found: list[str] = []
    for named in files:
        file = named._replace(path=named.path.rstrip("/")) if named.path.endswith("/") else named
        if file.path:
            found += [f"{file} with {other}" for other in before if other.path and _is_over(file.path, other.path)]
        before.append(file)
    return found


def _is_over(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}/") or other.startswith(f"{path}/")


def _named(kind: str, name: str | None) -> str:
    return kind if name is None else f"{kind} {go_quote(name)}"
