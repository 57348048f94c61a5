"""Warnings about volumes, claims and amounts of bytes.

Upstream: pkg/api/persistentvolume/util.go, pkg/api/persistentvolumeclaim/util.go
"""

from collections.abc import Mapping
from functools import lru_cache

from pykubelet.api.int64 import MAX_INT64, MIN_INT64
from pykubelet.api.quantity import Format, parse_quantity
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.warnings.node_labels import selector_term_warnings
from pykubelet.api.wire import Document

_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEPRECATED_ANNOTATIONS = {
    _STORAGE_CLASS: 'deprecated since v1.8; use "storageClassName" attribute instead',
    "volume.beta.kubernetes.io/mount-options": 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_RECYCLE = (
    "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is "
    "to use dynamic provisioning."
)
GONE_SYSTEMS = {
    "photonPersistentDisk": "photonPersistentDisk: deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "scaleIO: deprecated in v1.16, non-functional in v1.22+",
    "flocker": "flocker: deprecated in v1.22, non-functional in v1.25+",
    # The warning names the field of the Go type.
    "storageos": "storageOS: deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "quobyte: deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "glusterfs: deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "cephfs: deprecated in v1.28, non-functional in v1.31+",
    "rbd": "rbd: deprecated in v1.28, non-functional in v1.31+",
}
"""Storage that is supported no more, by the field of a volume that asks for it."""
_OF_VOLUMES = ("cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd")
# Numbers of so many digits upstream multiplies by powers of ten one by one, but for these powers.
_FEW_DIGITS = 18
_POWERS_AT_ONCE = frozenset({1, 2, 3, 6, 9})


def volume_warnings(document: Document) -> list[str]:
    """About a PersistentVolume."""
    spec, annotations = document["spec"], document["metadata"].get("annotations", {})
    warnings = [
        f"metadata.annotations[{key}]: {said}" for key, said in _DEPRECATED_ANNOTATIONS.items() if key in annotations
    ]
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        warnings.append(_RECYCLE)
    terms = spec.get("nodeAffinity", {}).get("required", {}).get("nodeSelectorTerms", ())
    for index, term in enumerate(terms):
        warnings += selector_term_warnings(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{index}]")
    return warnings + [f"spec.{GONE_SYSTEMS[kind]}" for kind in _OF_VOLUMES if kind in spec]


def claim_warnings(document: Document) -> list[str]:
    """About a PersistentVolumeClaim."""
    annotations = document["metadata"].get("annotations", {})
    warnings = claim_spec_warnings(document["spec"], "spec")
    if _STORAGE_CLASS not in annotations:
        return warnings
    return [f"metadata.annotations[{_STORAGE_CLASS}]: {_DEPRECATED_ANNOTATIONS[_STORAGE_CLASS]}", *warnings]


def claim_spec_warnings(spec: Document, path: str) -> list[str]:
    """About the spec of a claim, or of a template of claims."""
    resources = spec.get("resources", {})
    return [
        warning
        for kind in ("requests", "limits")
        for warning in fraction_warnings(resources.get(kind, {}), "storage", f"{path}.resources.{kind}")
    ]


def fraction_warnings(amounts: Mapping[str, str], resource: str, path: str) -> list[str]:
    """About the amount of a resource that is counted in bytes."""
    text = amounts.get(resource)
    if text is None or not _is_fractional(text):
        return []
    shown = go_quote(str(parse_quantity(text)))
    return [f"{path}[{resource}]: fractional byte value {shown} is invalid, must be an integer"]


@lru_cache(maxsize=1024)
def _is_fractional(text: str) -> bool:
    quantity = parse_quantity(text)
    thousandths = quantity.milli_value()
    if MIN_INT64 < thousandths < MAX_INT64:
        return thousandths % 1000 != 0
    # Upstream counts thousandths in 64 bits: those of larger amounts (10Pi) wrap around, or count as none (10P).
    power = quantity.scale + 3
    has_few_digits = quantity.format is not Format.BINARY_SI and len(str(abs(quantity.unscaled))) <= _FEW_DIGITS
    if power > _FEW_DIGITS or (has_few_digits and power not in _POWERS_AT_ONCE):
        return False
    return bool(((quantity.unscaled * 10**power - MIN_INT64) % 2**64 + MIN_INT64) % 1000)
