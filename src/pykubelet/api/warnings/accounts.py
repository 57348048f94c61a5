"""Warnings about service accounts, and about secrets that hold a certificate with its key.

Upstream: pkg/registry/core/serviceaccount/strategy.go, pkg/registry/core/secret/strategy.go
"""

from base64 import b64decode

from pykubelet.api.warnings.key_pairs import key_pair_problem
from pykubelet.api.wire import Document

_MOUNTABLE = "kubernetes.io/enforce-mountable-secrets"
_PREFER_NAMESPACES = (
    f"metadata.annotations[{_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted "
    "secrets"
)


def service_account_warnings(document: Document) -> list[str]:
    """About a new ServiceAccount."""
    return [_PREFER_NAMESPACES] if _MOUNTABLE in document["metadata"].get("annotations", {}) else []


def service_account_change_warnings(new: Document, old: Document) -> list[str]:
    """About a changed ServiceAccount, if it did not have the annotation before."""
    return [] if service_account_warnings(old) else service_account_warnings(new)


def secret_warnings(document: Document) -> list[str]:
    """About a Secret."""
    if document.get("type") != "kubernetes.io/tls":
        return []
    data = document.get("data", {})
    certificate, key = (b64decode(data.get(name, "")) for name in ("tls.crt", "tls.key"))
    problem = key_pair_problem(certificate, key)
    return [problem] if problem else []
