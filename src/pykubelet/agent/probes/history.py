"""What each probe found the last times it was run, for people who look at a pod.

In: findings as they come. Out: the last few of each probe. A finding takes one byte, so that many pods with probes cost
next to nothing.
"""

from dataclasses import dataclass, field

from msgspec import Struct

from pykubelet.agent.flow import ProbeKind, ProbeVerdict
from pykubelet.api.keys import PodUid

FINDINGS = 40
"""So many of each probe are remembered."""
_LETTERS = {ProbeVerdict.SUCCESS: b"s", ProbeVerdict.FAILURE: b"f", ProbeVerdict.UNKNOWN: b"u"}


class RecentFindings(Struct, frozen=True, rename="camel"):
    """The last findings of one probe, the newest last: a letter each, s for success, f for failure, u for unknown."""

    container: str
    kind: ProbeKind
    findings: str
    last_seconds: float


@dataclass(slots=True)
class _Remembered:
    letters: bytearray = field(default_factory=bytearray)
    last_seconds: float = 0.0


class ProbeHistory:
    """The last findings of all probes that are run now."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, dict[tuple[str, ProbeKind], _Remembered]] = {}

    def note(self, uid: PodUid, container: str, kind: ProbeKind, found: ProbeVerdict, seconds: float) -> None:
        """A probe was run, and took so long."""
        known = self._pods.setdefault(uid, {}).setdefault((container, kind), _Remembered())
        known.letters += _LETTERS[found]
        del known.letters[:-FINDINGS]
        known.last_seconds = seconds

    def forget(self, uid: PodUid, container: str, kind: ProbeKind) -> None:
        """A probe is not run any more."""
        probes = self._pods.get(uid, {})
        probes.pop((container, kind), None)
        if not probes:
            self._pods.pop(uid, None)

    def of_pod(self, uid: PodUid) -> tuple[RecentFindings, ...]:
        """The findings of each probe of a pod."""
        return tuple(
            RecentFindings(container, kind, known.letters.decode(), known.last_seconds)
            for (container, kind), known in self._pods.get(uid, {}).items()
        )
