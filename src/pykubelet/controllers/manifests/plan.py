"""What to apply, delete and leave alone, from what the files say and what follows them already.

In: the files as they were last found, the marked objects of the server, and what it serves. Out: a `Plan`. It needs no
memory: the same question gives the same answer, so what failed is simply asked for again.

Deleting needs evidence. An object goes only if a manifest made it, and its file is in good order without it, or was
removed from a folder that is there. It stays while its file has a problem, if its folder vanished or is another, empty
one now, and if its file is not followed any more.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pykubelet.controllers.manifests.marks import Identity, Mark, Present
from pykubelet.controllers.manifests.wishes import Apply, Kinds, Wish, sort_out
from pykubelet.kube.manifests.claims import Claim, claimed, with_losses
from pykubelet.kube.manifests.last_known_good import Found, PathView

# What others live in or refer to comes first and goes last. Any order would end the same way, after more tries.
_RANKS = {
    "Namespace": 0,
    "CustomResourceDefinition": 0,
    "PriorityClass": 1,
    "RuntimeClass": 1,
    "StorageClass": 1,
    "ServiceAccount": 1,
    "ClusterRole": 1,
    "Role": 1,
    "ConfigMap": 1,
    "Secret": 1,
}
_LAST = 2


class Plan(Struct, frozen=True, kw_only=True):
    """What is to be done, each list in order."""

    applies: tuple[Apply, ...] = ()
    unknown: tuple[Wish, ...] = ()
    """Documents of kinds that are not served, or not yet."""
    ending: tuple[Apply, ...] = ()
    """What cannot be applied before the old object of that name is gone."""
    deletes: tuple[Present, ...] = ()
    releases: tuple[Present, ...] = ()
    """Adopted objects whose document is gone: they stay, and follow nothing any more."""
    problems: Mapping[str, str] = {}
    """What is wrong, by file or path; for users."""


def make_plan(found: Found[Wish], present: Iterable[Present], kinds: Kinds) -> Plan:
    """Decide everything."""
    before = {each.identity: each for each in present}
    documents = sort_out(found, kinds)
    owners = {str(identity): each.mark.file for identity, each in before.items()}
    outcome = claimed(documents.files, owners, lambda one: Claim(str(one.identity), str(one.identity)))
    wanted = {one.identity: replace(one, present=before.get(one.identity)) for one in outcome.items}
    problems = with_losses(with_losses(found.problems, documents.problems), outcome.losses)
    # A document that is no object now may be what an object was made from.
    unclear = {*documents.problems, *(wish.item.origin for wish in documents.unknown)}
    gone: list[Present] = []
    for each in before.values():
        if each.identity in wanted or each.is_ending or each.mark.file in unclear:
            continue
        keep = _reason_to_keep(each.mark, found)
        if keep is None:
            gone.append(each)
        elif keep.message:
            problems[keep.place] = keep.message
    gone.sort(key=lambda each: -_rank(each.identity))
    return Plan(
        applies=tuple(sorted(filter(_is_due, wanted.values()), key=lambda one: _rank(one.identity))),
        unknown=documents.unknown,
        ending=tuple(one for one in wanted.values() if one.present and one.present.is_ending),
        deletes=tuple(each for each in gone if each.is_created),
        releases=tuple(each for each in gone if not each.is_created),
        problems=problems,
    )


def _is_due(one: Apply) -> bool:
    return one.present is None or (one.present.mark != one.mark and not one.present.is_ending)


def _rank(identity: Identity) -> int:
    return _RANKS.get(identity.kind, _LAST)


class _Keep(NamedTuple):
    """Why an object stays; the message is empty if the reason is told anyway."""

    place: str = ""
    message: str = ""


def _reason_to_keep(mark: Mark, found: Found[Wish]) -> _Keep | None:
    """None if the document of an object has gone for sure."""
    reading = found.files.get(mark.file)
    if reading is not None:
        return _Keep() if reading.problem else None
    folder = mark.file.rpartition("/")[0] or "/"
    views = [view for view in found.views if view.path in {mark.file, folder}]
    if not views:
        return _Keep(mark.file, "is not followed any more: the objects made from it are left as they are")
    for view in views:
        is_known = view.is_definite and not view.has_vanished
        if not is_known or (view.path != mark.file and not view.is_folder):
            return _Keep()
        if not view.files and _inode(view) != mark.folder:
            return _Keep(view.path, "another, empty folder is here now; the objects known from it are kept")
    return None


def _inode(view: PathView[Wish]) -> int:
    return view.folder[1] if view.folder else 0
