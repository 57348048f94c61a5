"""Warnings about finalizers of custom resources whose names may be those of others too.

Upstream: generateWarningsFromObj and validateKubeFinalizerName in apiextensions-apiserver/pkg/registry/customresource
"""

from pykubelet.api.names import qualified_name_errors
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document

_STANDARD = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_AVOIDS = "to avoid accidental conflicts with other finalizer writers"


def finalizer_warnings(document: Document) -> list[str]:
    """About the finalizers of a new object."""
    return _warnings(_finalizers(document))


def finalizer_change_warnings(new: Document, old: Document) -> list[str]:
    """About those that a change adds."""
    return _warnings(_finalizers(new) - _finalizers(old))


def _finalizers(document: Document) -> set[str]:
    return set(document["metadata"].get("finalizers", ()))


def _warnings(finalizers: set[str]) -> list[str]:
    warnings: list[str] = []
    for name in sorted(finalizers):
        at = f"metadata.finalizers: {go_quote(name)}:"
        warnings += [f"{at} {why}" for why in qualified_name_errors(name)]
        if "/" not in name and name not in _STANDARD:
            path = " including a path (/)" if "." in name else ""
            warnings.append(f"{at} prefer a domain-qualified finalizer name{path} {_AVOIDS}")
    return warnings
