"""Calls a kind's strategy in the server's order, for tests of single kinds."""

from typing import Any

from pykubelet.api.field_errors import FieldError
from pykubelet.api.patch.json_merge_patch import apply_merge
from pykubelet.kinds.kind import Strategy

Document = dict[str, Any]

UID = "0f3c7d1e-94f4-4f0a-8d1a-6a52a1c1a001"
SYSTEM = {"uid": UID, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
POD_SPEC = {"containers": [{"name": "c", "image": "x"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
SELECTOR = {"matchLabels": {"a": "b"}}


def create(strategy: Strategy, document: Document, *, namespace: str = "default") -> tuple[Document, list[str]]:
    """A new object as it is stored, and its validation errors."""
    read = strategy.default({**document, "metadata": {"name": "x", **document.get("metadata", {})}})
    place = {"namespace": namespace} if namespace else {}
    new = strategy.prepare_create({**read, "metadata": {**read["metadata"], **place, **SYSTEM}})
    return new, texts(strategy.validate_create(new))


def update(strategy: Strategy, stored: Document, patch: Document) -> tuple[Document, list[str]]:
    """An object after a user's patch, and its validation errors."""
    new = strategy.prepare_update(strategy.default(apply_merge(stored, patch)), stored)
    return new, texts(strategy.validate_update(new, stored))


def update_status(strategy: Strategy, stored: Document, patch: Document) -> tuple[Document, list[str]]:
    """An object after a patch of its status, and its validation errors."""
    new = strategy.prepare_status(strategy.default(apply_merge(stored, patch)), stored)
    return new, texts(strategy.validate_status(new, stored))


def texts(errors: list[FieldError]) -> list[str]:
    """The validation errors as users see them."""
    return [str(error) for error in errors]
