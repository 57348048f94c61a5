"""What came of applying a document, in words.

In: an object before and after, or why it was refused. Out: created, configured or unchanged; lines with file, line and field.
"""

import re

from pykubelet.api.errors import ApiError, Conflict
from pykubelet.api.manifest import ManifestItem
from pykubelet.api.wire import Document

_KEY = re.compile(r"\[([^\]=]+)=(\"[^\"]*\"|[^\]]*)\]")
# What the server itself keeps, and what controllers write meanwhile.
_NOT_OURS = frozenset({"managedFields", "resourceVersion", "generation"})


def outcome(before: Document | None, after: Document) -> str:
    """What became of an object: it was not there, or it is another one than before, or neither."""
    if before is None:
        return "created"
    return "unchanged" if _wish(before) == _wish(after) else "configured"


def _wish(document: Document) -> Document:
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _NOT_OURS}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def refusal_lines(item: ManifestItem, error: ApiError) -> list[str]:
    """Why a document was refused, with file, line and field as far as they are known."""
    if isinstance(error, Conflict) and error.has_cause("FieldManagerConflict"):
        return [_owner_line(item, cause) for cause in error.causes]
    causes = [cause for cause in error.causes if cause.get("field")]
    if not causes:
        return [str(item.problem("", error.message))]
    return [str(item.problem(_field(item, cause), str(cause.get("message", "")))) for cause in causes]


def conflict_hint(error: ApiError) -> str:
    """How to go on where others own fields; empty for other refusals."""
    if not isinstance(error, Conflict) or not error.has_cause("FieldManagerConflict"):
        return ""
    return "leave these fields out of the manifest, or take them over with --force-conflicts"


def _owner_line(item: ManifestItem, cause: Document) -> str:
    owner = str(cause.get("message", "")).removeprefix("conflict with ")
    return str(item.problem(_field(item, cause), f"another manager owns this field: {owner}"))


def _field(item: ManifestItem, cause: Document) -> str:
    """The field in the words of the manifest: elements of lists by their place, not by a key."""
    steps = _KEY.split(str(cause.get("field", "")).removeprefix("."))
    text = steps[0]
    for key, value, rest in zip(steps[1::3], steps[2::3], steps[3::3], strict=True):
        found = _place(_at(item.document, text), key, value.strip('"'))
        text += f"[{found if found is not None else f'{key}={value}'}]" + rest
    return text


def _place(elements: object, key: str, value: str) -> int | None:
    if not isinstance(elements, list):
        return None
    # The server may name more than one key; the first tells elements apart well enough to find a line.
    matches = (i for i, one in enumerate(elements) if isinstance(one, dict) and str(one.get(key)) == value)
    return next(matches, None)


def _at(value: object, path: str) -> object:
    for step in re.findall(r"[^.\[\]]+", path):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
