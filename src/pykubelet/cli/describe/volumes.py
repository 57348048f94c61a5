"""The volumes of a pod or a template.

Upstream: describeVolumes in kubectl/pkg/describe/describe.go.
"""

from collections.abc import Callable, Sequence

from pykubelet.api.wire import Document
from pykubelet.cli.describe.report import NONE, UNSET, Report, go_bool

_IN_VOLUME = 2


def add_volumes(report: Report, volumes: Sequence[Document], *, in_template: bool = False) -> None:
    """What they are, and where they come from."""
    margin = "  " if in_template else ""
    if not volumes:
        report.line(f"{margin}Volumes:\t{NONE}")
        return
    report.line(f"{margin}Volumes:")
    for volume in volumes:
        report.line(f"{' ' if in_template else ''}{volume['name']}:", 1)
        known = next((kind for kind in _KINDS if kind in volume), None)
        if known is None:
            report.line("<unknown>", 1)
        else:
            _KINDS[known](report, volume[known] or {})


def _fields(report: Report, kind: str, **fields: object) -> None:
    report.field("Type", kind, _IN_VOLUME)
    for name, value in fields.items():
        report.field(name, value, _IN_VOLUME)


def _host_path(report: Report, source: Document) -> None:
    kind = source.get("type")
    _fields(
        report,
        "HostPath (bare host directory volume)",
        Path=source.get("path", ""),
        HostPathType=NONE if kind is None else kind,
    )


def _empty_dir(report: Report, source: Document) -> None:
    kind = "EmptyDir (a temporary directory that shares a pod's lifetime)"
    _fields(report, kind, Medium=source.get("medium", ""), SizeLimit=source.get("sizeLimit", UNSET))


def _secret(report: Report, source: Document) -> None:
    optional = go_bool(source.get("optional"))
    kind = "Secret (a volume populated by a Secret)"
    _fields(report, kind, SecretName=source.get("secretName", ""), Optional=optional)


def _config_map(report: Report, source: Document) -> None:
    optional = go_bool(source.get("optional"))
    _fields(report, "ConfigMap (a volume populated by a ConfigMap)", Name=source.get("name", ""), Optional=optional)


def _claim(report: Report, source: Document) -> None:
    kind = "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)"
    _fields(report, kind, ClaimName=source.get("claimName", ""), ReadOnly=go_bool(source.get("readOnly")))


def _downward(report: Report, source: Document) -> None:
    report.field("Type", "DownwardAPI (a volume populated by information about the pod)", _IN_VOLUME)
    report.line("Items:", _IN_VOLUME)
    for item in source.get("items") or ():
        origin = (item.get("fieldRef") or {}).get("fieldPath") or (item.get("resourceFieldRef") or {}).get("resource")
        report.line(f"{origin} -> {item['path']}", 3)


def _projected(report: Report, source: Document) -> None:
    report.field("Type", "Projected (a volume that contains injected data from multiple sources)", _IN_VOLUME)
    for one in source.get("sources") or ():
        if secret := one.get("secret"):
            report.field("SecretName", secret.get("name", ""), _IN_VOLUME)
            report.field("Optional", go_bool(secret.get("optional")), _IN_VOLUME)
        elif "downwardAPI" in one:
            report.field("DownwardAPI", "true", _IN_VOLUME)
        elif config_map := one.get("configMap"):
            report.field("ConfigMapName", config_map.get("name", ""), _IN_VOLUME)
            report.field("Optional", go_bool(config_map.get("optional")), _IN_VOLUME)
        elif token := one.get("serviceAccountToken"):
            report.field("TokenExpirationSeconds", token.get("expirationSeconds", 0), _IN_VOLUME)


def _nfs(report: Report, source: Document) -> None:
    kind = "NFS (an NFS mount that lasts the lifetime of a pod)"
    read_only = go_bool(source.get("readOnly"))
    _fields(report, kind, Server=source.get("server", ""), Path=source.get("path", ""), ReadOnly=read_only)


def _csi(report: Report, source: Document) -> None:
    kind = "CSI (a Container Storage Interface (CSI) volume source)"
    read_only = go_bool(source.get("readOnly"))
    _fields(report, kind, Driver=source.get("driver", ""), FSType=source.get("fsType", ""), ReadOnly=read_only)
    report.labels("    VolumeAttributes", source.get("volumeAttributes"))


_KINDS: dict[str, Callable[[Report, Document], None]] = {
    "hostPath": _host_path,
    "emptyDir": _empty_dir,
    "secret": _secret,
    "configMap": _config_map,
    "persistentVolumeClaim": _claim,
    "downwardAPI": _downward,
    "projected": _projected,
    "nfs": _nfs,
    "csi": _csi,
}
