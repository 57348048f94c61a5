"""Which file has what, where several name the same.

In: what each file names, and who had it before. Out: one owner for each name. Who has it keeps it, else the first in
order gets it; who loses is told why. Upstream lets the last file win, silently: pkg/kubelet/config/file.go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pykubelet.kube.manifests.last_known_good import Reading

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Claim:
    """What an item must have for itself: its name, and a UID if it has one; and the user's words for it."""

    name: str
    label: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Claimed(Generic[T]):
    """The outcome."""

    owners: Mapping[str, str]
    """By name, the file that has it."""
    items: tuple[T, ...]
    """What won, in the order of the files."""
    losses: Mapping[str, tuple[str, ...]]
    """By file, which claims were lost and to whom."""


def claimed(files: Mapping[str, Reading[T]], owners: Mapping[str, str], claim_of: Callable[[T], Claim]) -> Claimed[T]:
    """Decide; the files in the order in which they choose."""
    claims = [(path, claim_of(item), item) for path, reading in files.items() for item in reading.items]
    names: dict[str, str] = {}
    uids: dict[str, tuple[str, str]] = {}
    won: set[int] = set()
    losses: dict[str, tuple[str, ...]] = {}
    # Who has something already chooses first; the sort is stable, so otherwise the order of the files decides.
    for position, (path, claim, _) in sorted(
        enumerate(claims), key=lambda entry: owners.get(entry[1][1].name) != entry[1][0]
    ):
        if claim.name in names:
            loss = _name_lost(claim, path, names[claim.name])
        elif claim.uid in uids:
            other, label = uids[claim.uid]
            loss = f"{claim.label} is ignored here: its uid belongs to {label} of {other}"
        else:
            names[claim.name] = path
            if claim.uid:
                uids[claim.uid] = (path, claim.label)
            won.add(position)
            continue
        losses[path] = (*losses.get(path, ()), loss)
    return Claimed(names, tuple(item for position, (_, _, item) in enumerate(claims) if position in won), losses)


def _name_lost(claim: Claim, path: str, winner: str) -> str:
    if winner == path:
        return f"{claim.label} is defined more than once here: the first counts"
    return f"{claim.label} is ignored here: {winner} defines it"


def with_losses(problems: Mapping[str, str], losses: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """All that is wrong by file or path: what was known already, then the lost claims."""
    return dict(problems) | {
        path: "; ".join([*([problems[path]] if path in problems else []), *lost]) for path, lost in losses.items()
    }
