"""The values handed from station to station."""

from collections.abc import Iterable
from enum import IntEnum, StrEnum

from msgspec import Struct

from pykubelet.api.generated.core import Pod


class PodOp(IntEnum):
    """What an update says about its pods; the numbers are upstream's, RESTORE is from the seed."""

    SET = 0
    ADD = 1
    DELETE = 2
    REMOVE = 3
    UPDATE = 4
    RECONCILE = 5
    RESTORE = 6


class Source(StrEnum):
    """Where pods come from. A test may use any other name."""

    FILE = "file"
    HTTP = "http"
    API = "api"
    ALL = "*"


class PodUpdate(Struct, frozen=True):
    """Pods of one source and what happened to them. An ADD without pods says only that the source is ready."""

    op: PodOp
    source: str
    pods: tuple[Pod, ...] = ()


class SyncType(IntEnum):
    """Why a pod is synced; the numbers are upstream's."""

    SYNC = 0
    UPDATE = 1
    CREATE = 2
    KILL = 3


def sync_type_name(number: int) -> str:
    """The name of a sync type as logs show it; `unknown` for a number that is none."""
    return SyncType(number).name.lower() if number in SyncType.__members__.values() else "unknown"


def validated_sources(names: Iterable[str]) -> tuple[Source, ...]:
    """The sources a configuration names: `*` means all at once, empty names are skipped, others are a ValueError."""
    validated: list[Source] = []
    for name in names:
        if name == Source.ALL:
            return (Source.FILE, Source.HTTP, Source.API)
        if name and name not in Source.__members__.values():
            raise ValueError(f'unknown pod source "{name}"')
        if name:
            validated.append(Source(name))
    return tuple(validated)
