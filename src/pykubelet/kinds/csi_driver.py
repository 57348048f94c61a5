"""CSIDriver: what a CSI driver needs of Kubernetes.

Upstream: pkg/registry/storage/csidriver/strategy.go, pkg/apis/storage/v1/defaults.go,
pkg/apis/storage/validation/validation.go
"""

from collections.abc import Sequence
from typing import Any

from pykubelet.api.field_errors import FieldError, duplicate, invalid, items_errors, not_supported
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import NONE, UNSET, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, next_generation
from pykubelet.kinds.metadata import immutable_errors, metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import OneOf

_DEFAULTS: Document = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
}
_GROUP_POLICIES = OneOf(("File", "None", "ReadWriteOnceWithFSType"))
_MODES = ("Persistent", "Ephemeral")
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 1 << 32
_MIN_UPDATE_SECONDS = 10


def _default(document: Document) -> Document:
    normal = normal_form(document, "storage.v1.CSIDriver")
    spec = {**_DEFAULTS, **normal["spec"]}
    # Upstream drops what belongs to gates that are off in 1.34, or sets their default if they are on.
    spec.setdefault("seLinuxMount", False)
    if not spec.get("volumeLifecycleModes"):
        spec["volumeLifecycleModes"] = ["Persistent"]
    return {**normal, "spec": spec}


def _validate_create(document: Document) -> list[FieldError]:
    return metadata_errors(document["metadata"], namespaced=False) + _spec_errors(document["spec"])


def _spec_errors(spec: Document) -> list[FieldError]:
    errors = _GROUP_POLICIES.errors(spec["fsGroupPolicy"], "spec.fsGroupPolicy")
    errors += _token_requests_errors(spec.get("tokenRequests", ()), "spec.tokenRequests")
    errors += items_errors(spec["volumeLifecycleModes"], _mode_errors, "spec.volumeLifecycleModes")
    seconds = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if seconds is not None and seconds < _MIN_UPDATE_SECONDS:
        path = "spec.nodeAllocatableUpdatePeriodSeconds"
        errors.append(invalid(path, seconds, "must be greater than or equal to 10 seconds"))
    return errors


def _mode_errors(mode: str, _path: str) -> list[FieldError]:
    # As upstream, the path is that of the list.
    return [] if mode in _MODES else [not_supported("spec.volumeLifecycleModes", mode, _MODES)]


def _token_requests_errors(requests: Sequence[Document], path: str) -> list[FieldError]:
    """Validates that no audience is repeated, and how long tokens last."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, request in enumerate(requests):
        audience, seconds = request["audience"], request.get("expirationSeconds")
        if audience in seen:
            errors.append(duplicate(f"{path}[{index}].audience", audience))
            continue
        seen.add(audience)
        place = f"{path}[{index}].expirationSeconds"
        if seconds is not None and seconds < _MIN_TOKEN_SECONDS:
            errors.append(invalid(place, seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > _MAX_TOKEN_SECONDS:
            errors.append(invalid(place, seconds, "may not specify a duration larger than 2^32 seconds"))
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    after, before, modes = new["spec"], old["spec"], "volumeLifecycleModes"
    return [
        *metadata_update_errors(new["metadata"], old["metadata"]),
        *_spec_errors(after),
        # As upstream, which misspells the field here.
        *immutable_errors(after["attachRequired"], before["attachRequired"], "spec.attachedRequired"),
        *immutable_errors(after[modes], before[modes], f"spec.{modes}"),
    ]


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, attach required, pod info, storage capacity, token requests, requires republish, modes, age."""
    spec = {**_DEFAULTS, **at(document, "spec")}
    requests = spec.get("tokenRequests")
    return [
        name_of(document),
        spec["attachRequired"],
        spec["podInfoOnMount"],
        spec["storageCapacity"],
        UNSET if requests is None else ",".join(one.get("audience", "") for one in requests),
        spec["requiresRepublish"],
        ",".join(spec.get("volumeLifecycleModes", ())) or NONE,
        created(document, age),
    ]


KIND = Kind(
    resource=Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False),
    definition="storage.v1.CSIDriver",
    strategy=Strategy(
        default=_default,
        validate_create=_validate_create,
        prepare_update=lambda new, old: next_generation(new, old, changed=new["spec"] != old["spec"]),
        validate_update=_validate_update,
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
