"""Pods from manifests on disk: folders of files, or single files.

In: paths, followed. Out: a SET of all pods of all paths, whenever they differ from the last one sent. A SET costs a look
at every pod of this source, which is fine for the dozens that people keep in files.

Upstream: pkg/kubelet/config/file.go. On purpose otherwise: all documents of a file count; where two files name one pod,
the one whose pod runs already keeps it, else the first in order has it; and what `kube.manifests` promises.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_full_name, pod_label
from pykubelet.client.manifests.follower import ManifestContent, ManifestFollower
from pykubelet.client.manifests.last_known_good import (
    FileClaim,
    FileReading,
    FoundManifests,
    ProblemBook,
    ProblemReporter,
    resolve_claims,
    with_losses,
)
from pykubelet.client.manifests.scanner import MANIFEST_EXTENSIONS, problem_text
from pykubelet.kubelet.config.config import SourceChannel
from pykubelet.kubelet.config.merge import Pods
from pykubelet.kubelet.config.static_pods import ProvenanceTrail, decode_pods, file_origin, file_provenance
from pykubelet.kubelet.types import PodOperation


class FileSource:
    """Follows a path, or several as one source. A path that is missing at the start is an empty one, and a problem."""

    def __init__(
        self,
        *,
        path: str | Path | None = None,
        paths: Sequence[str | Path] = (),
        node_name: str,
        channel: SourceChannel,
        problems: ProblemReporter,
        extensions: tuple[str, ...] = MANIFEST_EXTENSIONS,
        allow_references: bool = False,
        skips_other_kinds: bool = False,
    ) -> None:
        """In a folder only files with one of the `extensions` count; "" admits any file that no editor left behind.

        With `skips_other_kinds` a document that is no pod is someone else's business, else it is a problem.
        """

        def read(data: bytes, file: str) -> FileReading[Pod]:
            decoded = decode_pods(
                data,
                origin=file_origin(file),
                node_name=node_name,
                allow_references=allow_references,
                skips_other_kinds=skips_other_kinds,
            )
            return FileReading(items=decoded.pods, problem=problem_text(decoded.problems))

        self._follower = ManifestFollower(
            paths=[*([] if path is None else [path]), *paths],
            content=ManifestContent(noun="pods", read=read, name_of=pod_full_name),
            extensions=extensions,
        )
        self._channel = channel
        self._book = ProblemBook(channel.source, problems)
        self._owners: Mapping[str, str] = {}
        self._stories = ProvenanceTrail(channel.trail)
        self._sent: Pods | None = None

    async def run(self, ready: asyncio.Event) -> None:
        """Follow the paths until cancelled; `ready` is set after the first look, whatever it found."""

        async def looked(found: FoundManifests[Pod]) -> None:
            await self._send(found)
            ready.set()

        await self._follower.run(looked)

    async def _send(self, found: FoundManifests[Pod]) -> None:
        outcome = resolve_claims(found.files, self._owners, _claim)
        self._owners = outcome.owners
        self._book.update(with_losses(found.problems, outcome.losses))
        named = {path: reading.items for path, reading in found.files.items()}
        self._stories.tell(file_provenance(outcome.items, outcome.owners, named, found.problems))
        if found.is_definite and outcome.items != self._sent:
            await self._channel.send(PodOperation.SET, outcome.items)
            self._sent = outcome.items


def _claim(pod: Pod) -> FileClaim:
    return FileClaim(pod_full_name(pod), f"pod {pod_label(pod)}", pod.metadata.uid)
