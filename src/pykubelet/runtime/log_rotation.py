"""Which files of a container's log are kept, compressed or removed when it is rotated.

`0.log` is being written, `0.log.20260102-030405` was written last, older ones end in `.gz`. The names sort by age.

Upstream: pkg/kubelet/logs/container_log_manager.go
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

COMPRESSED = ".gz"
TEMPORARY = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationPolicy:
    """When a log is rotated, and how many files of it there may be, the one being written included."""

    max_bytes: int = 10 * 1024 * 1024
    max_files: int = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationPlan:
    """What to do before a log is moved away; removal goes first, oldest first."""

    remove: tuple[str, ...]
    compress: tuple[str, ...]


def rotated_names(log_name: str, names: Iterable[str]) -> list[str]:
    """The older files of a log, oldest first, without what an interrupted rotation left behind."""
    known = {name for name in names if name.startswith(f"{log_name}.")}
    return sorted(name for name in known if not name.endswith(TEMPORARY) and name + COMPRESSED not in known)


def rotation_plan(log_name: str, names: Iterable[str], max_files: int) -> RotationPlan:
    """What to do with the older files of a log so that there is room for one more."""
    known = [name for name in names if name.startswith(f"{log_name}.")]
    kept = rotated_names(log_name, known)
    unused = sorted(set(known).difference(kept))
    # Besides these there will be the one being written and the one moved away now.
    surplus = max(len(kept) - max(max_files - 2, 0), 0)
    compress = tuple(name for name in kept[surplus:] if not name.endswith(COMPRESSED))
    return RotationPlan(remove=(*unused, *kept[:surplus]), compress=compress)


def rotated_name(log_name: str, at: datetime) -> str:
    """The name a log gets when it is moved away."""
    return f"{log_name}.{at.astimezone(UTC):%Y%m%d-%H%M%S}"
