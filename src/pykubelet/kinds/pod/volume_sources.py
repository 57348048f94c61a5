"""Validation of volume sources for storage systems: disks, clusters, networks.

Upstream: pkg/apis/core/validation/validation.go
"""

import re
from collections.abc import Callable, Mapping

from pykubelet.api.field_errors import FieldError, invalid, not_supported, optional_errors, required
from pykubelet.api.names import dns1123_label_errors, inclusive_range_error
from pykubelet.api.serializer import Document
from pykubelet.kinds.rules import OneOf

SourceRule = Callable[[Document, str], list[FieldError]]
_QUALIFIED_NAMES = {
    "iqn": re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\f\r ]+\Z"),
    "eui": re.compile(r"\Aeui.[0-9A-Za-z]{16}\Z"),
    "naa": re.compile(r"\Anaa.[0-9A-Za-z]{32}\Z"),
}
_AZURE_CACHING = OneOf(("None", "ReadOnly", "ReadWrite"))
_AZURE_KINDS = OneOf(("Dedicated", "Managed", "Shared"))
_AZURE_MANAGED_URI = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_AZURE_BLOB_URI = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_RESERVED_SUFFIXES = (".kubernetes.io", ".k8s.io")
_HOST_PORTS = "must be a host:port pair or multiple pairs separated by commas"
REMOVED_STORAGE_WARNINGS = {
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "flocker": "flocker: deprecated in v1.22, non-functional in v1.25+",
    # The warning has Go's field name.
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "quobyte: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}
"""Warnings about removed storage systems, by the field of a volume."""


def requires(*fields: str) -> SourceRule:
    """Returns a rule that these fields of a source are not empty."""
    return lambda source, path: [required(f"{path}.{field}") for field in fields if not source.get(field)]


def _iscsi_errors(source: Document, path: str) -> list[FieldError]:
    errors = requires("targetPortal", "iqn")(source, path)
    if source.get("iqn"):
        errors += _qualified_name_errors(source["iqn"], f"{path}.iqn")
    lun = source.get("lun", 0)
    if not 0 <= lun <= 255:
        errors.append(invalid(f"{path}.lun", lun, inclusive_range_error(0, 255)))
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and "secretRef" not in source:
        errors.append(required(f"{path}.secretRef"))
    if "initiatorName" in source:
        errors += _qualified_name_errors(source["initiatorName"], f"{path}.initiatorname")
    return errors


def _qualified_name_errors(name: str, path: str) -> list[FieldError]:
    pattern = _QUALIFIED_NAMES.get(name[:3])
    if pattern is None:
        return [invalid(path, name, "must be valid format starting with iqn, eui, or naa")]
    return [] if pattern.search(name) else [invalid(path, name, "must be valid format")]


def _fc_errors(source: Document, path: str) -> list[FieldError]:
    names, ids = source.get("targetWWNs", []), source.get("wwids", [])
    errors: list[FieldError] = []
    if not names and not ids:
        errors.append(required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both"))
    if names and ids:
        errors.append(invalid(f"{path}.targetWWNs", names, "targetWWNs and wwids can not be specified simultaneously"))
    if names and "lun" not in source:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    elif names and not 0 <= source["lun"] <= 255:
        errors.append(invalid(f"{path}.lun", source["lun"], inclusive_range_error(0, 255)))
    return errors


def _disk_errors(id_field: str) -> SourceRule:
    def errors(source: Document, path: str) -> list[FieldError]:
        found = requires(id_field)(source, path)
        partition = source.get("partition", 0)
        if not 0 <= partition <= 255:
            # Zero is valid although upstream's message excludes it.
            found.append(invalid(f"{path}.partition", partition, inclusive_range_error(1, 255)))
        return found

    return errors


def _quobyte_errors(source: Document, path: str) -> list[FieldError]:
    registry = source.get("registry", "")
    errors: list[FieldError] = []
    if not registry:
        errors.append(required(f"{path}.registry", _HOST_PORTS))
    elif len(source.get("tenant", "").encode()) >= 65:
        errors.append(required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters"))
    else:
        bad = [pair for pair in registry.split(",") if not _is_host_port(pair)]
        errors += [invalid(f"{path}.registry", registry, _HOST_PORTS) for _ in bad]
    return errors + requires("volume")(source, path)


def _is_host_port(text: str) -> bool:
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        return bool(bracket) and port.startswith(":") and not set(host + port[1:]) & set("[]") and ":" not in port[1:]
    host, colon, port = text.rpartition(":")
    return bool(colon) and ":" not in host and not set(host + port) & set("[]")


def _flocker_errors(source: Document, path: str) -> list[FieldError]:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors: list[FieldError] = []
    if not name and not uuid:
        errors.append(required(path, "one of datasetName and datasetUUID is required"))
    if name and uuid:
        errors.append(invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously"))
    if "/" in name:
        errors.append(invalid(f"{path}.datasetName", name, "must not contain '/'"))
    return errors


def _cinder_errors(source: Document, path: str) -> list[FieldError]:
    return requires("volumeID")(source, path) + _secret_ref_errors(source, path)


def _secret_ref_errors(source: Document, path: str) -> list[FieldError]:
    missing = "secretRef" in source and not source["secretRef"].get("name")
    return [required(f"{path}.secretRef.name")] if missing else []


def _flex_errors(source: Document, path: str) -> list[FieldError]:
    errors = requires("driver")(source, path)
    for key in source.get("options", {}):
        namespace = f".{key.partition('/')[0].lower()}"
        if namespace.endswith(_RESERVED_SUFFIXES):
            errors.append(invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved"))
    return errors


def _azure_disk_errors(source: Document, path: str) -> list[FieldError]:
    errors = requires("diskName", "diskURI")(source, path)
    caching, kind, uri = source.get("cachingMode"), source.get("kind"), source.get("diskURI", "")
    errors += _AZURE_CACHING.errors(caching, f"{path}.cachingMode")
    errors += _AZURE_KINDS.errors(kind, f"{path}.kind")
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_AZURE_MANAGED_URI,)))
    if kind is not None and kind != "Managed" and not uri.startswith("https://"):
        errors.append(not_supported(f"{path}.diskURI", uri, (_AZURE_BLOB_URI,)))
    return errors


def _storageos_errors(source: Document, path: str) -> list[FieldError]:
    errors = requires("volumeName")(source, path)
    for field in ("volumeName", "volumeNamespace"):
        errors += optional_errors(f"{path}.{field}", source.get(field), dns1123_label_errors)
    return errors + _secret_ref_errors(source, path)


_RULES: Mapping[str, SourceRule] = {
    "gcePersistentDisk": _disk_errors("pdName"),
    "awsElasticBlockStore": _disk_errors("volumeID"),
    "iscsi": _iscsi_errors,
    "glusterfs": requires("endpoints", "path"),
    "flocker": _flocker_errors,
    "rbd": requires("monitors", "image"),
    "cinder": _cinder_errors,
    "cephfs": requires("monitors"),
    "quobyte": _quobyte_errors,
    "fc": _fc_errors,
    "flexVolume": _flex_errors,
    "azureFile": requires("secretName", "shareName"),
    "vsphereVolume": requires("volumePath"),
    "photonPersistentDisk": requires("pdID"),
    "portworxVolume": requires("volumeID"),
    "azureDisk": _azure_disk_errors,
    "storageos": _storageos_errors,
    "scaleIO": requires("gateway", "system", "volumeName"),
}


def storage_system_rules(*kinds: str) -> dict[str, SourceRule]:
    """The rules of these types of sources."""
    return {kind: _RULES[kind] for kind in kinds}
