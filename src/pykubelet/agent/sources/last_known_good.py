"""What the files of a source say, or said when they last made sense.

In: one look at the folder (`Scan`) and what was known before (`View`). Out: the new `View`: the pods of the source and
what is wrong with it. A pod goes only when its file is removed, or its file, in good order, no longer names it. A
file that cannot be read or understood, and a folder that vanished, keep their pods.

Where two files name one pod, the file whose pod runs already keeps it, else the first in sorted order has it.
Upstream drops the pods in all these cases, and lets the last file win: pkg/kubelet/config/file.go.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.agent.sources.merge import Pods
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_full_name, pod_label

Stamp = tuple[int, ...]
"""Tells two states of a file apart without reading it; empty: always read it."""
FolderId = tuple[int, int]
"""Device and inode of a folder."""


class Reading(Struct, frozen=True, kw_only=True):
    """What a file said when it was read, and what is wrong with it."""

    pods: Pods = ()
    problem: str = ""
    stamp: Stamp = ()


class Scan(Struct, frozen=True, kw_only=True):
    """One look at the source's path."""

    path: str
    is_folder: bool = False
    folder: FolderId | None = None
    """The folder that was listed; None if that was not possible."""
    files: Mapping[str, Reading | None] = {}
    """Every file there by its path; None: unchanged, or in the middle of being written."""
    unstable: frozenset[str] = frozenset()
    """Names that changed while they were read; look again soon."""
    problem: str = ""
    """What is wrong with the path itself."""
    is_definite: bool = False
    """Whether no pods means that there are none, not that they could not be read."""


class View(Struct, frozen=True, kw_only=True):
    """All that is known of a source of files."""

    files: Mapping[str, Reading] = {}
    owners: Mapping[str, str] = {}
    """Which file each pod (by full name) is taken from."""
    folder: FolderId | None = None
    is_folder: bool = False
    is_definite: bool = False
    """Whether a look at the path has ever been definite; before, no pods means nothing."""
    pods: Pods = ()
    problems: Mapping[str, str] = {}
    """What is wrong now, by path."""


NOTHING_KNOWN = View()


def advance(view: View, scan: Scan) -> View:
    """What is known after one more look."""
    is_definite = view.is_definite or scan.is_definite
    has_vanished = scan.folder is None
    # An unmounted folder leaves an empty one in its place, which says nothing about the files.
    is_another_empty_one = not scan.files and bool(view.files) and scan.folder != view.folder
    if has_vanished or is_another_empty_one:
        problem = scan.problem or "another, empty folder is here now"
        if view.pods:
            problem += "; the pods known from it are kept"
        return replace(view, is_definite=is_definite, problems={**view.problems, scan.path: problem})
    files = {
        path: kept
        for path, reading in sorted(scan.files.items())
        if (kept := _kept(view.files.get(path), reading)) is not None
    }
    owners, pods, losses = _claimed(files, view.owners)
    problems = {path: "; ".join(said) for path in files if (said := [*_said(files[path]), *losses.get(path, [])])}
    if scan.problem:
        problems[scan.path] = scan.problem
    return View(
        files=files,
        owners=owners,
        folder=scan.folder,
        is_folder=scan.is_folder,
        is_definite=is_definite,
        pods=pods,
        problems=problems,
    )


def _kept(before: Reading | None, now: Reading | None) -> Reading | None:
    """What counts of a file: what it says now and, while something is wrong with it, what it said before."""
    if now is None or before is None:
        return now or before
    pods = now.pods
    if now.problem:
        named = {pod_full_name(pod) for pod in pods}
        pods += tuple(pod for pod in before.pods if pod_full_name(pod) not in named)
    # Equal pods stay the same objects, so that whoever compares them later need not look inside.
    return Reading(pods=before.pods if pods == before.pods else pods, problem=now.problem, stamp=now.stamp)


def _said(reading: Reading) -> Iterator[str]:
    if reading.problem:
        yield reading.problem


def _claimed(
    files: Mapping[str, Reading], owners: Mapping[str, str]
) -> tuple[dict[str, str], Pods, dict[str, list[str]]]:
    """Which file has which pod; the pods in order; and by path, which claims were lost and to whom."""
    claims = [(path, pod) for path, reading in files.items() for pod in reading.pods]
    names: dict[str, str] = {}
    uids: dict[str, tuple[str, Pod]] = {}
    won: set[int] = set()
    losses: dict[str, list[str]] = {}
    # Pods that run already choose first; the sort is stable, so otherwise the order of the files decides.
    for position, (path, pod) in sorted(
        enumerate(claims), key=lambda claim: owners.get(pod_full_name(claim[1][1])) != claim[1][0]
    ):
        name, uid = pod_full_name(pod), pod.metadata.uid
        if name in names:
            losses.setdefault(path, []).append(
                f"pod {pod_label(pod)} is ignored here: {names[name]} defines it"
                if names[name] != path
                else f"pod {pod_label(pod)} is defined more than once here: the first counts"
            )
        elif uid in uids:
            other, other_pod = uids[uid]
            losses.setdefault(path, []).append(
                f"pod {pod_label(pod)} is ignored here: its uid belongs to pod {pod_label(other_pod)} of {other}"
            )
        else:
            names[name], uids[uid] = path, (path, pod)
            won.add(position)
    return names, tuple(pod for position, (_, pod) in enumerate(claims) if position in won), losses
