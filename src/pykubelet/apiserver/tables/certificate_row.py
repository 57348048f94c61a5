"""Requests for certificates as rows.

Upstream: printCertificateSigningRequest in pkg/printers/internalversion/printers.go
"""

from typing import Any

from pykubelet.api.ages import Age, human_duration
from pykubelet.api.certificate_requests import APPROVED, DENIED, FAILED
from pykubelet.api.wire import Document
from pykubelet.apiserver.tables.cell_texts import NONE, at, created, name_of


def certificate_request_cells(document: Document, age: Age) -> list[Any]:
    """Name, age, signer, requestor, requested duration, condition."""
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
    words += ["Issued"] if status.get("certificate") else []
    return ",".join(words)
