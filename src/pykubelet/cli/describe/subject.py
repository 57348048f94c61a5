"""An object to be told of, with all that belongs to it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pykubelet.api.ages import human_duration
from pykubelet.api.times import parse_time
from pykubelet.api.wire import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object, its events, and related objects by their plural; None for those that may not be seen."""

    object: Document
    events: Sequence[Document] = ()
    related: Mapping[str, Sequence[Document] | None] = field(default_factory=dict)
    now: datetime

    @property
    def metadata(self) -> Document:
        return part(self.object, "metadata")

    @property
    def spec(self) -> Document:
        return part(self.object, "spec")

    @property
    def status(self) -> Document:
        return part(self.object, "status")

    def others(self, plural: str) -> Sequence[Document]:
        """Related objects of a kind."""
        return self.related.get(plural) or ()

    def since(self, text: str | None) -> str:
        """How long ago a time was."""
        if not text:
            return "<unknown>"
        return human_duration((self.now - parse_time(text)).total_seconds())


def part(document: Document, name: str) -> Document:
    """A part of an object; empty if it is not there."""
    found: Any = document.get(name)
    return found if isinstance(found, dict) else {}
