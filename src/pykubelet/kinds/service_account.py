"""The rules of service accounts.

Upstream: pkg/registry/core/serviceaccount/strategy.go
"""

from pykubelet.api.field_errors import FieldError
from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import Document
from pykubelet.kinds.kind import Strategy, Warnings
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors
from pykubelet.kinds.secret import service_account_change_warnings, service_account_warnings


def _default(document: Document) -> Document:
    return normal_form(document, "core.v1.ServiceAccount")


def _prepare_create(account: Document) -> Document:
    """Secrets are of the account's own namespace, so that nothing but their names matters."""
    if "secrets" not in account:
        return account
    names = [{"name": each["name"]} if each.get("name") else {} for each in account["secrets"]]
    return {**account, "secrets": names}


def _prepare_update(new: Document, _old: Document) -> Document:
    return _prepare_create(new)


def _validate(account: Document) -> list[FieldError]:
    return metadata_errors(account["metadata"])


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return metadata_update_errors(new["metadata"], old["metadata"]) + _validate(new)


SERVICE_ACCOUNTS = Strategy(
    default=_default,
    prepare_create=_prepare_create,
    validate_create=_validate,
    prepare_update=_prepare_update,
    validate_update=_validate_update,
    warnings=Warnings(create=service_account_warnings, update=service_account_change_warnings),
)
