"""The rules of CertificateSigningRequests: made by anybody, approved and signed through other doors.

Who asks is written into the object by admission, which knows that; nothing of a request changes once it is made.

Upstream: pkg/registry/certificates/certificates/strategy.go
"""

from collections.abc import Mapping

from pykubelet.api.certificate_requests import APPROVED, DENIED
from pykubelet.api.normal_form import normal_form
from pykubelet.api.validation.certificate_requests import Door, request_errors, request_update_errors
from pykubelet.api.validation.field_errors import FieldError
from pykubelet.api.wire import Document
from pykubelet.apiserver.served import Strategy, metadata_fields


def _default(document: Document) -> Document:
    return normal_form(document, "certificates.v1.CertificateSigningRequest")


def _prepare_create(document: Document) -> Document:
    return {**document, "status": {}}


def _prepare_update(new: Document, old: Document) -> Document:
    return {**new, "spec": old["spec"], "status": old.get("status", {})}


def _prepare_status(new: Document, old: Document) -> Document:
    status = new.get("status") or {}
    if "conditions" in status:
        kept = _with_decisions_of(old, status["conditions"])
        status = {**status, "conditions": kept}
    return {**new, "spec": old["spec"], "status": status}


def _prepare_approval(new: Document, old: Document) -> Document:
    rest = {name: value for name, value in old.get("status", {}).items() if name != "conditions"}
    conditions = (new.get("status") or {}).get("conditions")
    return {**new, "spec": old["spec"], "status": rest | ({"conditions": conditions} if conditions else {})}


def _with_decisions_of(old: Document, conditions: list[Document]) -> list[Document]:
    """The conditions, those that decide as they were unless there are more or fewer, which validation refuses."""
    before: list[Document] = (old.get("status") or {}).get("conditions") or []
    for type in (APPROVED, DENIED):
        kept = [condition for condition in before if condition.get("type") == type]
        if len(kept) == sum(condition.get("type") == type for condition in conditions):
            left = iter(kept)
            conditions = [next(left) if condition.get("type") == type else condition for condition in conditions]
    return conditions


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    return request_update_errors(new, old, Door())


def _validate_status(new: Document, old: Document) -> list[FieldError]:
    return request_update_errors(new, old, Door(signs=True))


def _validate_approval(new: Document, old: Document) -> list[FieldError]:
    return request_update_errors(new, old, Door(approves=True))


def _fields(document: Document) -> Mapping[str, str]:
    signer = document.get("spec", {}).get("signerName", "")
    return {"metadata.name": metadata_fields(document)["metadata.name"], "spec.signerName": signer}


CERTIFICATE_REQUESTS = Strategy(
    default=_default,
    prepare_create=_prepare_create,
    validate_create=request_errors,
    prepare_update=_prepare_update,
    validate_update=_validate_update,
    prepare_status=_prepare_status,
    validate_status=_validate_status,
    fields=_fields,
)
APPROVAL = Strategy(default=_default, prepare_update=_prepare_approval, validate_update=_validate_approval)
