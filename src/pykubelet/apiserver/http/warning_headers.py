"""Warnings as HTTP headers: each once, none that a header cannot hold, and not endlessly many.

In: texts in the order in which they were found. Out: values of headers.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go, NewWarningHeader in apimachinery/pkg/util/net/http.go
"""

import re
from collections.abc import Iterable

# All texts together, and each of them once they are more than that; in characters.
_MOST_WARNINGS = 4096
_LONGEST_WARNING = 256
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def warning_headers(warnings: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The headers that tell a client of these."""
    texts = [text for text in dict.fromkeys(warnings) if text and not _UNFIT.search(text)]
    return tuple(("Warning", f"299 - {_quoted(text)}") for text in _within_bounds(texts))


def _within_bounds(texts: list[str]) -> list[str]:
    """The texts; all of them cut short if they are too much together, and so many of these as fit."""
    total = fitting = 0
    for text in texts:
        fitting += 1
        total += len(text)
        if total > _MOST_WARNINGS:
            break
    else:
        return texts
    # Those up to the one that was too much are told in any case.
    cut = [text[:_LONGEST_WARNING] for text in texts]
    written = sum(map(len, cut[:fitting]))
    while fitting < len(cut) and written < _MOST_WARNINGS:
        written += len(cut[fitting])
        fitting += 1
    return cut[:fitting]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
