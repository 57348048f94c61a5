"""Registers types with msgspec before several threads decode them.

msgspec builds its type information on first use and crashes if two threads do that at once; every decoder is therefore
created for a type that passed through here.
"""

import threading
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_registered: set[Any] = set()
_lock = threading.Lock()


def register_type(kind: type[T]) -> type[T]:
    """Build msgspec's information about a type, once, and return the type."""
    if kind not in _registered:
        with _lock:
            msgspec.json.Decoder(kind)
            _registered.add(kind)
    return kind
