"""What differs between two objects, as messages of the API server show it.

In: both objects in internal form. Out: a unified diff of their JSON, three lines around each change, without a header.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go
"""

import json
from difflib import unified_diff

from pykubelet.api.validation.field_errors import go_escaped
from pykubelet.api.wire import Document

_HEADER_LINES = 2


def go_diff(old: Document, new: Document) -> str:
    """The changes that lead from the old object to the new."""
    lines = list(unified_diff(_lines(old), _lines(new), n=3))
    return "".join(lines[_HEADER_LINES:])


def _lines(value: Document) -> list[str]:
    text = go_escaped(json.dumps(value, indent=1, ensure_ascii=False))
    return [f"{line}\n" for line in text.split("\n")]
