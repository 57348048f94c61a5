"""What was made of a document is remembered for the next one like it.

Most pods have relatives: a set or a job makes them all from one spec. What the API server works out for the first of a
family (its defaults, its faults, its fields) holds for the others. A family is known by its text: making that costs a
tenth of working out what is remembered, and tells 1 from true and 1.0. Only what comes a second time is remembered:
to keep what never comes again would cost an eighth of a pod's creation.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pykubelet.api.serializer import Document, encode

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

# The newest families; documents that are larger than this have none. So a cache has a few MB at most.
REMEMBERED, LARGEST_BYTES = 64, 16 * 1024


class SpecCache(Generic[T]):
    """Results by the text of what they were made of. They are shared, so nobody may change them."""

    def __init__(self) -> None:
        self._results: dict[tuple[bytes, Hashable], T] = {}
        self._seen: dict[int, None] = {}

    def of(self, document: Document, make: Callable[[], T], *, also: Hashable = None) -> T:
        """What `make` gives, or gave for an equal document; `also` is what else the result depends on."""
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
