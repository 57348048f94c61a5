"""Caches defaults and validation results of repeated specs.

Pods of one ReplicaSet or Job share their spec, so the work is done for the first two and reused. The key is the spec's
JSON text, which also distinguishes 1, 1.0 and true; making it costs a tenth of the cached work. A result is kept when
its spec appears for the second time, because keeping results of unique specs would cost an eighth of a pod's creation.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pykubelet.api.serializer import Document, encode

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

# The number of results kept, and the largest spec that is cached: a cache takes a few MB at most.
REMEMBERED, LARGEST_BYTES = 64, 16 * 1024


class SpecCache(Generic[T]):
    """Results by the JSON text of the spec they were computed from. Results are shared: do not modify them."""

    def __init__(self) -> None:
        self._results: dict[tuple[bytes, Hashable], T] = {}
        self._seen: dict[int, None] = {}

    def of(self, document: Document, make: Callable[[], T], *, also: Hashable = None) -> T:
        """Returns `make(...)`, or its cached result for an equal document; `also` is what else the result depends on."""
        key = (encode(document), also)
        known = self._results.get(key)
        if known is not None:
            return known
        result = make()
        if hash(key) not in self._seen:
            _put(self._seen, hash(key), None)
        elif len(key[0]) <= LARGEST_BYTES:
            _put(self._results, key, result)
        return result


def _put(newest: dict[K, V], key: K, value: V) -> None:
    if len(newest) >= REMEMBERED:
        del newest[next(iter(newest))]
    newest[key] = value
