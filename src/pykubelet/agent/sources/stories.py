"""Tells on the trail of each static pod where it comes from and what is wrong there, as that changes."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from pykubelet.agent.flow import Trail, WaitAt
from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.api.pods import pod_full_name

STATION = "sources"


class Story(Struct, frozen=True):
    """The place a pod was read from, what is wrong with it, and the other places that name the pod in vain."""

    where: str
    problem: str = ""
    ignored: tuple[str, ...] = ()


def file_stories(
    pods: Iterable[Pod], owners: Mapping[str, str], named: Mapping[str, Iterable[Pod]], problems: Mapping[str, str]
) -> Iterator[tuple[PodUid, Story]]:
    """The stories of pods of files: who owns each name, which file names which pods, what is wrong by file or folder."""
    by_name: dict[str, list[str]] = {}
    for path, found in named.items():
        for name in {pod_full_name(pod) for pod in found}:
            by_name.setdefault(name, []).append(path)
    for pod in pods:
        name = pod_full_name(pod)
        where = owners[name]
        ignored = tuple(path for path in by_name.get(name, ()) if path != where)
        yield PodUid(pod.metadata.uid), Story(where, _problem(where, problems), ignored)


def _problem(path: str, problems: Mapping[str, str]) -> str:
    """What is wrong with a file, or with the folder it is in."""
    return problems.get(path) or next(
        (f"{place}: {what}" for place, what in problems.items() if path.startswith(f"{place}/")), ""
    )


class Stories:
    """What was told of the pods of one source; belongs to that source. Without a trail nobody hears it."""

    def __init__(self, trail: Trail | None) -> None:
        self._trail = trail
        self._told: dict[PodUid, Story] = {}

    def tell(self, stories: Iterable[tuple[PodUid, Story]]) -> None:
        """Take the stories of all pods there are now; tells only what is new, different or healed."""
        before, self._told = self._told, dict(stories)
        if self._trail is not None:
            for uid, story in self._told.items():
                if before.get(uid) != story:
                    _tell(self._trail, uid, before.get(uid, Story("")), story)


def _tell(trail: Trail, uid: PodUid, old: Story, new: Story) -> None:
    if old.where != new.where:
        trail.note(uid, STATION, "read", place=new.where)
    if new.problem != old.problem:
        if new.problem:
            trail.note(uid, STATION, "kept as it was, its source is broken", place=new.where, problem=new.problem)
        else:
            trail.note(uid, STATION, "its source is in good order again", place=new.where)
        trail.waits(uid, WaitAt.SOURCES, f"{new.where}: {new.problem}" if new.problem else "")
    if new.ignored != old.ignored:
        for place in new.ignored:
            trail.note(uid, STATION, "another manifest that names it is ignored", ignored=place, used=new.where)
        others = ", ".join(new.ignored)
        trail.waits(uid, WaitAt.CLAIMS, f"{others}: ignored, {new.where} has the pod" if others else "")
