"""Which sources the loop has heard from.

Of those it knows all pods, so it may clean up what they do not name. A source counts in two steps: PodConfig has merged a
SET of it, and the loop has handled an update of it. Between the two its pods are still on their way, and would look like
leftovers.

Upstream: pkg/kubelet/config/sources.go, which knows only "all or none". Here each source also has its own answer: what
a ready source removed goes away even while another source is absent.
"""

from collections.abc import Set as AbstractSet
from typing import Protocol

from pykubelet.agent.flow import PodOp, PodUpdate


class Delivered(Protocol):
    """What PodConfig knows about its sources."""

    def sources(self) -> tuple[str, ...]:
        """The configured sources."""

    def is_ready(self, source: str) -> bool:
        """Whether a SET of this source has been merged."""

    def seen_all_sources(self, seen: AbstractSet[str]) -> bool:
        """Whether every configured source is in `seen` and has delivered a SET."""


class SourcesReady:
    """The loop's side of readiness; owned by the loop."""

    def __init__(self, config: Delivered) -> None:
        self._config = config
        self._seen: set[str] = set()

    def saw(self, update: PodUpdate) -> None:
        """Say that an update has been handled. A RESTORE does not count: it may lack pods of its source."""
        if update.op is not PodOp.RESTORE:
            self._seen.add(update.source)

    def is_ready(self, source: str) -> bool:
        """Whether all pods of this source are known, so that one it does not name may go."""
        return source in self._seen and self._config.is_ready(source)

    def all_ready(self) -> bool:
        """Whether every configured source is ready: needed before something of unknown origin may go."""
        return self._config.seen_all_sources(self._seen)

    def waiting_for(self) -> tuple[str, ...]:
        """The configured sources that are not ready yet; to tell the user what is missing."""
        return tuple(source for source in self._config.sources() if not self.is_ready(source))
