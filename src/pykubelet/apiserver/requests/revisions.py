"""Revisions as clients write them.

In: the text of a resourceVersion. Out: the number, or Go's words for what is none.

Upstream: k8s.io/apiserver/pkg/storage/api_object_versioner.go (ParseResourceVersion)
"""

from pykubelet.api.validation.field_errors import go_quote

_UINT64_DIGITS = 20


def parse_revision(text: str) -> int | None:
    """The revision, 0 for an empty text; None if it is no unsigned number of 64 bits."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()) or len(text.lstrip("0")) > _UINT64_DIGITS:
        return None
    number = int(text)
    return number if number < 2**64 else None


def unreadable_revision(text: str) -> str:
    """What is wrong with a text that is no revision."""
    problem = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    quoted = go_quote(text)
    return f"resourceVersion: Invalid value: {quoted}: strconv.ParseUint: parsing {quoted}: {problem}"
