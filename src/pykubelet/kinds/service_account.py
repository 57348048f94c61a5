"""ServiceAccount: the identity of pods.

Upstream: pkg/registry/core/serviceaccount/strategy.go
"""

from typing import Any

from pykubelet.api.field_errors import FieldError
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.columns import created, name_of
from pykubelet.kinds.kind import Kind, Strategy, Warnings, normalized
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_PREFER_NAMESPACES = (
    f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted "
    "secrets"
)


def _prepare(account: Document, _old: Document | None = None) -> Document:
    """Reduces references to secrets to their names, since secrets are in the account's own namespace."""
    if "secrets" not in account:
        return account
    names = [{"name": each["name"]} if each.get("name") else {} for each in account["secrets"]]
    return {**account, "secrets": names}


def _validate(account: Document) -> list[FieldError]:
    return metadata_errors(account["metadata"])


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + _validate(new)


def service_account_warnings(document: Document) -> list[str]:
    """Warns about the deprecated annotation of a new ServiceAccount."""
    return [_PREFER_NAMESPACES] if _MOUNTABLE in document["metadata"].get("annotations", {}) else []


def service_account_change_warnings(new: Document, old: Document) -> list[str]:
    """Warns about the deprecated annotation of a changed ServiceAccount if the update adds it."""
    return [] if service_account_warnings(old) else service_account_warnings(new)


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, secrets, age."""
    return [name_of(document), len(document.get("secrets") or ()), created(document, age)]


KIND = Kind(
    resource=Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    definition="core.v1.ServiceAccount",
    short_names=("sa",),
    subresources=("token",),
    strategy=Strategy(
        default=normalized("core.v1.ServiceAccount"),
        prepare_create=_prepare,
        validate_create=_validate,
        prepare_update=_prepare,
        validate_update=_validate_update,
        warnings=Warnings(create=service_account_warnings, update=service_account_change_warnings),
    ),
    cells=_cells,
)
