"""Sizes of a terminal as clients tell them: JSON objects one after the other.

Upstream: handleResizeEvents in staging/src/k8s.io/kubelet/pkg/cri/streaming/remotecommand/httpstream.go
"""

import json

from pykubelet.nodeapi.streaming.console import TerminalSize

# A size has forty bytes; what is longer is none.
_LONGEST = 4096
_DECODER = json.JSONDecoder()


class SizeReader:
    """Makes sizes of bytes as they come; what is no size ends it."""

    def __init__(self) -> None:
        self._text = ""
        self.is_broken = False

    def feed(self, data: bytes) -> list[TerminalSize]:
        """The sizes that are complete now."""
        self._text += data.decode("latin-1")
        sizes: list[TerminalSize] = []
        while not self.is_broken and (text := self._text.lstrip()):
            try:
                value, end = _DECODER.raw_decode(text)
            except (ValueError, RecursionError):
                self.is_broken = len(text) > _LONGEST or not text.startswith("{")
                break
            size = _size(value)
            if size is None:
                self.is_broken = True
            else:
                sizes.append(size)
                self._text = text[end:]
        return sizes


def _size(value: object) -> TerminalSize | None:
    if not isinstance(value, dict):
        return None
    fields = {str(name).lower(): number for name, number in value.items()}
    columns, rows = fields.get("width", 0), fields.get("height", 0)
    if not all(type(number) is int and 0 <= number < 2**16 for number in (columns, rows)):
        return None
    return TerminalSize(columns, rows)
