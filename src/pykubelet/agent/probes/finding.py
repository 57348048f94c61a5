"""What one run of a probe found.

Upstream: pkg/probe/probe.go
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How it went; the words are those of events. WARNING is a success with something to tell."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """An answer of the container, or its failure to give one in time."""

    state: State
    output: str = ""


class ProbeError(Exception):
    """The probe could not be run to its end, which says nothing about the container."""

    def __init__(self, message: str, state: State = State.UNKNOWN) -> None:
        super().__init__(message)
        self.state = state
