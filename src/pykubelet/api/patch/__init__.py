"""Patches on documents: strategic merge patch, JSON merge patch, JSON patch.

A document is what JSON gives: dicts, lists, strings, numbers, booleans and None. Every function here is pure: it never
changes what it is given, and what it gives back shares the unchanged parts. Whoever changes a result in place changes
the original too, so nobody does. All errors are `PatchError`s, with the messages of Kubernetes.
"""

from typing import Any

from pykubelet.api.patch.errors import (
    ConflictError,
    MalformedDocumentError,
    MalformedPatchError,
    PatchError,
    TooManyOperationsError,
    UnknownFieldError,
)
from pykubelet.api.patch.json_patch import apply_json
from pykubelet.api.patch.merge_patch import apply_merge, apply_merge_text, diff_merge
from pykubelet.api.patch.schema import Definition, type_schema
from pykubelet.api.patch.strategic_apply import apply_map
from pykubelet.api.patch.strategic_diff import diff_maps
from pykubelet.api.patch.three_way import diff_three_way

__all__ = [
    "ConflictError",
    "Definition",
    "MalformedDocumentError",
    "MalformedPatchError",
    "PatchError",
    "TooManyOperationsError",
    "UnknownFieldError",
    "apply_json",
    "apply_merge",
    "apply_merge_text",
    "apply_strategic",
    "diff_merge",
    "diff_strategic",
    "diff_strategic_three_way",
]


def apply_strategic(original: dict[str, Any], patch: dict[str, Any], definition: Definition) -> dict[str, Any]:
    """The original with a strategic merge patch applied.

    `definition` names the type of both: `"core.v1.Pod"` or `("v1", "Pod")`. The result is raw: no defaults, no check
    of types, and directives inside new list elements stay, as upstream leaves them.
    """
    return apply_map(original, patch, type_schema(definition))


def diff_strategic(original: dict[str, Any], modified: dict[str, Any], definition: Definition) -> dict[str, Any]:
    """The strategic merge patch that leads from the original to the modified document; empty if they are equal.

    Applying it to the original gives the modified document, unless that holds nulls or repeats a merge key, which a
    patch cannot express.
    """
    return diff_maps(original, modified, type_schema(definition))


def diff_strategic_three_way(
    original: dict[str, Any],
    modified: dict[str, Any],
    current: dict[str, Any],
    definition: Definition,
    *,
    overwrite: bool = True,
) -> dict[str, Any]:
    """The strategic merge patch that `kubectl apply` sends for the current (live) document.

    It adds and changes what `modified` says, deletes what `original` (the configuration applied last) said and
    `modified` no longer says, and leaves the rest alone. Without `overwrite`, raises `ConflictError` where the live
    document was changed too, and differently.
    """
    return diff_three_way(original, modified, current, type_schema(definition), overwrite=overwrite)
