"""Lease: the holder of a lock, and the heartbeat of a node.

Upstream: pkg/registry/coordination/lease/strategy.go, pkg/apis/coordination/validation/validation.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, normalized, without_fields
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.rules import POSITIVE, AtLeast, fields_errors

# Fields of coordinated leader election, whose feature gate is off.
_DISABLED = ("strategy", "preferredHolder")
_SPEC_RULES = {"leaseDurationSeconds": POSITIVE, "leaseTransitions": AtLeast(0)}


def _prepare(lease: Document, _old: Document | None = None) -> Document:
    if not any(name in lease["spec"] for name in _DISABLED):
        return lease
    return {**lease, "spec": without_fields(lease["spec"], *_DISABLED)}


def _validate(lease: Document) -> list[FieldError]:
    return metadata_errors(lease["metadata"]) + fields_errors(lease["spec"], _SPEC_RULES, "spec")


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + fields_errors(new["spec"], _SPEC_RULES, "spec")


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, holder, age."""
    return [name_of(document), at(document, "spec").get("holderIdentity", ""), created(document, age)]


KIND = Kind(
    resource=Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    definition="coordination.v1.Lease",
    strategy=Strategy(
        default=normalized("coordination.v1.Lease"),
        prepare_create=_prepare,
        validate_create=_validate,
        prepare_update=_prepare,
        validate_update=_validate_update,
        allows_create_on_update=True,
        allows_unconditional_update=False,
    ),
    cells=_cells,
)
