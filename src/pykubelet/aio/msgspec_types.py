"""Has msgspec learn a type in one thread before any thread uses it.

It learns a type when it is first decoded, and shows it to other threads while it is still at it: one that comes by
then crashes the whole program. So whoever decodes into a type asks for it here.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_known: set[Any] = set()
_learning = threading.Lock()


def register_type(kind: type[T]) -> type[T]:
    """The same type, of which msgspec knows all from now on."""
    if kind not in _known:
        with _learning:
            msgspec.json.Decoder(kind)
            _known.add(kind)
    return kind
