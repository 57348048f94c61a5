"""JSON merge patches (RFC 7386): apply and create.

Inputs are never changed; the result shares unchanged parts with them. A null in a patch deletes, so nulls never enter a
document except as list items.

Upstream: vendor/gopkg.in/evanphx/json-patch.v4/merge.go
"""

from typing import Any

import msgspec

from pykubelet.api.go_print import ABSENT
from pykubelet.api.patch.errors import MalformedDocumentError, MalformedPatchError, PatchError
from pykubelet.api.serializer import without_nulls

Map = dict[str, Any]


def apply_merge(original: Any, patch: Any) -> Any:
    """Applies a patch to a document.

    A patch must be an object, or a list, which replaces the whole; raises `MalformedPatchError` otherwise, and
    `MalformedDocumentError` if the original is null.
    """
    if original is None:
        raise MalformedDocumentError("Invalid JSON Document")
    if type(patch) is dict:
        return _merge(original, patch) if type(original) is dict else without_nulls(patch)
    if type(patch) is list:
        return without_nulls(patch)
    raise MalformedPatchError("Invalid JSON Patch")


def apply_merge_text(original: bytes | str, patch: bytes | str) -> Any:
    """Applies a patch given as JSON text; of a repeated key the last value counts."""
    try:
        document = msgspec.json.decode(original)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedDocumentError("Invalid JSON Document") from error
    try:
        changes = msgspec.json.decode(patch)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MalformedPatchError("Invalid JSON Patch") from error
    return apply_merge(document, changes)


def diff_merge(original: Any, modified: Any) -> Any:
    """Creates the merge patch between two objects, or a list of patches for two lists of equal length.

    A null in the modified document is indistinguishable from a deletion. Raises `PatchError` for other inputs.
    """
    if type(original) is list and type(modified) is list:
        if len(original) != len(modified):
            raise MalformedDocumentError("Invalid JSON Document")
        return [_diff_documents(before, after) for before, after in zip(original, modified, strict=True)]
    if type(original) is list or type(modified) is list:
        raise PatchError("Mismatched JSON Documents")
    return _diff_documents(original, modified)


def _merge(original: Map, patch: Map) -> Map:
    if not patch:
        return original
    result = dict(original)
    for key, value in patch.items():
        current = result.get(key)
        if value is None:
            result.pop(key, None)
        elif type(current) is not dict:
            result[key] = without_nulls(value)
        elif type(value) is dict:
            result[key] = _merge(current, value)
        else:
            # Upstream drops nulls only where no object existed before.
            result[key] = value
    return result


def _diff_documents(original: Any, modified: Any) -> Map:
    before, after = ({} if document is None else document for document in (original, modified))
    if type(before) is not dict or type(after) is not dict:
        raise MalformedDocumentError("Invalid JSON Document")
    return _diff(before, after)


def _diff(original: Map, modified: Map) -> Map:
    patch: Map = {}
    for key, value in modified.items():
        before = original.get(key, ABSENT)
        if type(value) is dict and type(before) is dict:
            if inner := _diff(before, value):
                patch[key] = inner
        elif not _matches(before, value):
            patch[key] = value
    patch.update(dict.fromkeys(key for key in original if key not in modified))
    return patch


def _matches(left: Any, right: Any) -> bool:
    """Compares with numbers as floats, unlike `json_equal`: upstream decodes both sides into floats here."""
    if type(left) is dict and type(right) is dict:
        return left.keys() == right.keys() and all(_matches(item, right[key]) for key, item in left.items())
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(_matches, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)
