"""What containers use of the machine, as far as a runtime can tell."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """One reading; what is not known is None."""

    at: datetime
    cpu_nanoseconds: int | None = None
    """Of all cores together, since the start."""
    memory_bytes: int | None = None
    """With what the kernel keeps for it and could drop."""
    working_set_bytes: int | None = None
    """Of that, what cannot be dropped at once."""
    rss_bytes: int | None = None
    swap_bytes: int | None = None
    layer_bytes: int | None = None
    """On disk: what the container wrote over its image."""
    layer_inodes: int | None = None
    processes: int | None = None


class Usages(Protocol):
    """Measures containers."""

    async def usages(self) -> Mapping[str, Usage]:
        """The usage of every container that runs, by its id; those that cannot be measured are missing."""
