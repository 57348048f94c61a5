"""CertificateSigningRequest, with its subresources `approval` and `status`.

Admission writes the requesting user into the object; the spec never changes afterwards.

Upstream: pkg/registry/certificates/certificates/strategy.go, pkg/apis/certificates/validation/validation.go,
pkg/printers/internalversion/printers.go
"""

import base64
import binascii
from collections.abc import Mapping
from functools import partial
from typing import Any

from cryptography import x509

from pykubelet.api.certificates import APPROVED, DENIED, FAILED, LEGACY_SIGNER, RequestError, signed_request
from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    not_supported,
    required,
)
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age, human_duration
from pykubelet.kinds.columns import NONE, at, created, name_of
from pykubelet.kinds.kind import Kind, Strategy, metadata_fields, normalized, without_fields
from pykubelet.kinds.metadata import metadata_errors, metadata_update_errors, signer_name_errors
from pykubelet.kinds.rules import AtLeast, repeated_indexes

_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_EXPIRATION = AtLeast(600, "may not specify a duration less than 600 seconds (10 minutes)")
_CONDITIONS, _CERTIFICATE = "status.conditions", "status.certificate"
_FINAL = (APPROVED, DENIED, FAILED)
_default = normalized("certificates.v1.CertificateSigningRequest")


def _request_errors(new: Document, old: Document | None = None) -> list[FieldError]:
    spec = new["spec"]
    # The name is not restricted.
    errors = metadata_errors(new["metadata"], name_rule=lambda _name: [], namespaced=False)
    try:
        signed_request(_decoded(spec.get("request")))
    except RequestError as error:
        errors.append(invalid("spec.request", spec.get("request"), str(error)))
    errors += _usages_errors(spec, old)
    errors += _signer_errors(spec, old)
    errors += _EXPIRATION.errors(spec.get("expirationSeconds"), "spec.expirationSeconds")
    errors += _conditions_errors(new, old)
    return errors + _certificate_errors(new, old)


def _decoded(text: str | None) -> bytes:
    """Decodes base64; invalid base64 was rejected when the object was decoded."""
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""


def _usages_errors(spec: Document, old: Document | None) -> list[FieldError]:
    usages = spec.get("usages", [])
    before = old["spec"].get("usages", []) if old else []
    errors = [] if usages else [required("spec.usages")]
    if set(before) <= set(_USAGES):
        errors += [
            not_supported(f"spec.usages[{index}]", TypedString(usage), _USAGES)
            for index, usage in enumerate(usages)
            if usage not in _USAGES
        ]
    if len(before) == len(set(before)):
        repeated = repeated_indexes(usages)
        errors += [
            duplicate(f"spec.usages[{index}]", TypedString(usage))
            for index, usage in enumerate(usages)
            if index in repeated
        ]
    return errors


def _signer_errors(spec: Document, old: Document | None) -> list[FieldError]:
    signer = spec.get("signerName", "")
    if signer == LEGACY_SIGNER and (old is None or old["spec"].get("signerName") != LEGACY_SIGNER):
        return [invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")]
    return signer_name_errors(signer, "spec.signerName")


def _conditions_errors(new: Document, old: Document | None) -> list[FieldError]:
    errors: list[FieldError] = []
    before = [condition.get("type", "") for condition in _conditions(old)] if old else []
    was_both, had_empty = {APPROVED, DENIED} <= set(before), "" in before
    types: set[str] = set()
    may_repeat = len(before) != len(set(before))
    for index, condition in enumerate(_conditions(new)):
        path, type, status = f"{_CONDITIONS}[{index}]", condition.get("type", ""), condition.get("status", "")
        if not type and not had_empty:
            errors.append(required(f"{path}.type"))
        allowed = ("True",) if type in _FINAL else ("False", "True", "Unknown")
        if not status:
            errors.append(required(f"{path}.status"))
        elif status not in allowed:
            errors.append(not_supported(f"{path}.status", TypedString(status), allowed))
        other = {APPROVED: DENIED, DENIED: APPROVED}.get(type)
        if other in types and not was_both:
            detail = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid(_CONDITIONS, TypedString(type), detail))
        if type in types and not may_repeat:
            errors.append(duplicate(f"{path}.type", TypedString(type)))
        types.add(type)
    return errors


def _conditions(document: Document) -> list[Document]:
    found: list[Document] = (document.get("status") or {}).get("conditions") or []
    return found


def _certificate_errors(new: Document, old: Document | None) -> list[FieldError]:
    text = _certificate(new)
    if old is not None and (text == _certificate(old) or _certificate_problem(_certificate(old))):
        return []
    problem = _certificate_problem(text)
    return [invalid(_CERTIFICATE, "<certificate data>", problem)] if problem else []


def _certificate(document: Document) -> str:
    found: str = (document.get("status") or {}).get("certificate") or ""
    return found


def _certificate_problem(text: str) -> str:
    if not text:
        return ""
    pem = _decoded(text)
    kinds = [part.partition(b"-----")[0].decode(errors="replace") for part in pem.split(b"-----BEGIN ")[1:]]
    if not kinds:
        return "must contain at least one CERTIFICATE PEM block"
    for kind in kinds:
        if kind != "CERTIFICATE":
            return f"only CERTIFICATE PEM blocks are allowed, found {go_quote(kind)}"
    try:
        x509.load_pem_x509_certificates(pem)
    except ValueError:
        return "x509: malformed certificate"
    return ""


def _prepare_update(new: Document, old: Document) -> Document:
    return {**new, "spec": old["spec"], "status": old.get("status", {})}


def _update_errors(
    new: Document, old: Document, *, may_approve: bool = False, may_sign: bool = False
) -> list[FieldError]:
    """Validates a changed request, except for errors that the old object has too.

    Only the endpoint `approval` may change the conditions of approval, and only `status` the certificate.
    """
    errors = _request_errors(new, old)
    for type in _FINAL:
        if len(_conditions_of_type(new, type)) < len(_conditions_of_type(old, type)):
            errors.append(forbidden(_CONDITIONS, f"updates may not remove a condition of type {go_quote(type)}"))
    if not may_approve:
        errors += _decision_errors(new, old)
    if _certificate(new) != _certificate(old):
        if not may_sign:
            errors.append(forbidden(_CERTIFICATE, "updates may not set certificate content"))
        elif _certificate(old):
            errors.append(forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
    return errors + metadata_update_errors(new["metadata"], old["metadata"])


def _conditions_of_type(document: Document, type: str) -> list[Document]:
    return [condition for condition in _conditions(document) if condition.get("type") == type]


def _decision_errors(new: Document, old: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    for type in (APPROVED, DENIED):
        after, before = _conditions_of_type(new, type), _conditions_of_type(old, type)
        word = "add" if len(after) > len(before) else "modify" if len(after) == len(before) and after != before else ""
        if word:
            errors.append(forbidden(_CONDITIONS, f"updates may not {word} a condition of type {go_quote(type)}"))
    return errors


def _prepare_status(new: Document, old: Document) -> Document:
    status = new.get("status") or {}
    if "conditions" in status:
        status = {**status, "conditions": _with_decisions_of(old, status["conditions"])}
    return {**new, "spec": old["spec"], "status": status}


def _with_decisions_of(old: Document, conditions: list[Document]) -> list[Document]:
    """The conditions with the old decisions restored, unless their number differs, which validation rejects."""
    for type in (APPROVED, DENIED):
        kept = _conditions_of_type(old, type)
        if len(kept) == sum(condition.get("type") == type for condition in conditions):
            left = iter(kept)
            conditions = [next(left) if condition.get("type") == type else condition for condition in conditions]
    return conditions


def _fields(document: Document) -> Mapping[str, str]:
    signer = document.get("spec", {}).get("signerName", "")
    return {"metadata.name": metadata_fields(document)["metadata.name"], "spec.signerName": signer}


def _prepare_approval(new: Document, old: Document) -> Document:
    rest, conditions = without_fields(old.get("status", {}), "conditions"), _conditions(new)
    return {**new, "spec": old["spec"], "status": rest | ({"conditions": conditions} if conditions else {})}


def request_cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, age, signer, requestor, requested duration, condition."""
    spec = at(document, "spec")
    seconds = spec.get("expirationSeconds")
    return [
        name_of(document),
        created(document, age),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if seconds is None else human_duration(seconds),
        _condition(at(document, "status")),
    ]


def _condition(status: Document) -> str:
    types = {condition.get("type") for condition in status.get("conditions") or ()}
    words = ["Denied" if DENIED in types else "Approved" if APPROVED in types else "Pending"]
    words += [FAILED] if FAILED in types else []
    return ",".join([*words, "Issued"] if status.get("certificate") else words)


KIND = Kind(
    resource=Resource(
        "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
    ),
    definition="certificates.v1.CertificateSigningRequest",
    short_names=("csr",),
    subresources=("approval", "status"),
    strategy=Strategy(
        default=_default,
        prepare_create=lambda document: {**document, "status": {}},
        validate_create=_request_errors,
        prepare_update=_prepare_update,
        validate_update=_update_errors,
        prepare_status=_prepare_status,
        validate_status=partial(_update_errors, may_sign=True),
        fields=_fields,
    ),
    subresource_strategies={
        "approval": Strategy(
            default=_default,
            prepare_update=_prepare_approval,
            validate_update=partial(_update_errors, may_approve=True),
        )
    },
    cells=request_cells,
)
