"""Holds static pods back until it is known what the API server shows of them.

A static pod that runs on from before this agent started has a mirror, which tells since when it is ready. Whoever made
a status before having seen that would move its conditions. A machine on which nothing runs has nothing to lose, and an
API server that does not answer is not waited for long: it may itself be a static pod. Upstream does not wait.

Which sources the loop has heard from.

Of those it knows all pods, so it may clean up what they do not name. A source counts in two steps: PodConfig has merged a
SET of it, and the loop has handled an update of it. Between the two its pods are still on their way, and would look like
leftovers.

Upstream: pkg/kubelet/config/sources.go, which knows only "all or none". Here each source also has its own answer: what
a ready source removed goes away even while another source is absent.

Problems of sources, told as events about the node, and kept as long as they last.

What follows manifests beside the node may tell its problems here too; they are no problems of the node's pods.

Upstream tells of them in its log only.
"""

import asyncio
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Protocol

from pykubelet.api.generated.core import ObjectReference
from pykubelet.client.manifests.last_known_good import SourceProblem
from pykubelet.client.recorder import WARNING, EventRecorder
from pykubelet.kubelet.types import PodOperation, PodSource, PodUpdate
from pykubelet.runtimes.protocol import RuntimeFailure, RuntimePod

PATIENCE_SECONDS = 5.0


class SourceRunner(Protocol):
    """A source of static pods."""

    async def run(self, ready: asyncio.Event) -> None:
        """Follow it until cancelled."""


class ApiPodListing(Protocol):
    """What the runtime has."""

    async def pods(self) -> Sequence[RuntimePod]:
        """Everything; RuntimeFailure if that cannot be known."""


class StaticPodHold:
    """A source that starts a little later; `delivered` is set when the pods of the API server are known."""

    def __init__(
        self,
        source: SourceRunner,
        *,
        delivered: asyncio.Event,
        runtime: ApiPodListing,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self._source, self._delivered, self._runtime = source, delivered, runtime
        self._patience_seconds = patience_seconds

    async def run(self, ready: asyncio.Event) -> None:
        """Wait as long as it is worth it, then follow the source until cancelled."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_seconds):
                if await self._may_have_pods():
                    await self._delivered.wait()
        await self._source.run(ready)

    async def _may_have_pods(self) -> bool:
        try:
            return bool(await self._runtime.pods())
        except RuntimeFailure:
            return True


SOURCE_PROBLEM = "PodSourceProblem"
MANIFEST_PROBLEM = "ManifestProblem"
"""With documents that are no pods."""
_SOURCES_OF_PODS = frozenset(PodSource)
_LONGEST_EVENT = 1024
"""What an event may say at most."""


class SourceProblemReporter:
    """What is wrong with the sources now; a `Problems`."""

    def __init__(self, *, recorder: EventRecorder, node: ObjectReference) -> None:
        self._recorder, self._node = recorder, node
        self._open: dict[tuple[str, str], SourceProblem] = {}

    def report(self, problem: SourceProblem) -> None:
        # Two that follow one file find the same wrong with its text: one event says it.
        is_told = any((each.where, each.message) == (problem.where, problem.message) for each in self._open.values())
        self._open[problem.source, problem.where] = problem
        if is_told:
            return
        message = f"{problem.where}: {problem.message}"
        reason = SOURCE_PROBLEM if problem.source in _SOURCES_OF_PODS else MANIFEST_PROBLEM
        self._recorder.event(self._node, WARNING, reason, message[:_LONGEST_EVENT])

    def clear(self, source: str, where: str) -> None:
        self._open.pop((source, where), None)

    def all(self) -> tuple[SourceProblem, ...]:
        """All that is wrong now."""
        return tuple(self._open.values())

    def warning(self) -> str:
        """What is wrong with pods in a few words, for the node's condition; empty if nothing is."""
        places = ", ".join(problem.where for problem in self._open.values() if problem.source in _SOURCES_OF_PODS)
        return f"problems with sources of pods: {places}" if places else ""


class DeliveredSources(Protocol):
    """What PodConfig knows about its sources."""

    def sources(self) -> tuple[str, ...]:
        """The configured sources."""

    def is_ready(self, source: str) -> bool:
        """Whether a SET of this source has been merged."""

    def seen_all_sources(self, seen: AbstractSet[str]) -> bool:
        """Whether every configured source is in `seen` and has delivered a SET."""


class SourcesReady:
    """The loop's side of readiness; owned by the loop."""

    def __init__(self, config: DeliveredSources) -> None:
        self._config = config
        self._seen: set[str] = set()

    def saw(self, update: PodUpdate) -> None:
        """Say that an update has been handled. A RESTORE does not count: it may lack pods of its source."""
        if update.op is not PodOperation.RESTORE:
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
