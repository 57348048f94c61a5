"""The events of a watch as the lines of its answer.

In: events, each with the JSON text of its object. Out: one text for each batch, so that a batch is one write.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{watch,response}.go.
"""

from collections.abc import Callable, Iterable

from pykubelet.apiserver.call import Event

Lines = Callable[[Iterable[Event]], bytes]
"""Makes the lines of a batch."""
Shown = Callable[[bytes], bytes]
"""The object of an event in another form, as JSON."""

_HEADS = {
    kind: f'{{"type":"{kind}","object":'.encode() for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}
_TAIL = b"}\n"


def plain_lines(events: Iterable[Event]) -> bytes:
    """Each object as it is stored."""
    parts: list[bytes] = []
    for event in events:
        parts += (_HEADS[event.type], event.object, _TAIL)
    return b"".join(parts)


def shown_lines(shown: Shown) -> Lines:
    """Each object in another form; an error stays the Status that it is."""

    def lines(events: Iterable[Event]) -> bytes:
        parts: list[bytes] = []
        for event in events:
            text = event.object if event.type == "ERROR" else shown(event.object)
            parts += (_HEADS[event.type], text, _TAIL)
        return b"".join(parts)

    return lines
