"""The config maps and secrets that pods name: how to ask for them, and to hear of changes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from pykubelet.agent.volumes.interest import Named
from pykubelet.agent.volumes.lookups import Lookups
from pykubelet.aio.broadcast import Lagged
from pykubelet.aio.supervise import start_supervised
from pykubelet.api.generated.core import ConfigMap, Secret

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Changes(Protocol):
    """Which objects may have changed, as it happens."""

    async def next(self) -> tuple[str, str]:
        """Namespace and name of one; aio.broadcast.Lagged if any of them may have."""


class ObjectReader(Protocol[T_co]):
    """Objects of one kind."""

    async def get(self, namespace: str, name: str) -> T_co:
        """One object; NotFound if there is none, another error if that is not known."""

    def subscribe(self) -> AbstractContextManager[Changes]:
        """Hear of changes for as long as the context lasts."""


class NodeFacts(Protocol):
    """What is known of the node itself."""

    def allocatable(self) -> Mapping[str, str]:
        """What it has for pods, by resource."""

    def host_ips(self) -> tuple[str, ...]:
        """Its addresses, the preferred one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodObjects:
    """Where objects come from; None where there is no API server."""

    config_maps: ObjectReader[ConfigMap] | None
    secrets: ObjectReader[Secret] | None

    async def look_up(self, namespace: str, *, config_maps: Iterable[str], secrets: Iterable[str]) -> Lookups:
        """Everything that was asked for: the object, or why it could not be had."""
        return Lookups(
            config_maps=await _read(self.config_maps, "configMap", namespace, config_maps),
            secrets=await _read(self.secrets, "secret", namespace, secrets),
        )

    async def follow(self, changed: Callable[[Named | None], None], ready: asyncio.Event) -> None:
        """Tell which object may have changed, None if any of them may, until cancelled; from `ready` on, none is missed."""
        readers = {"configmap": self.config_maps, "secret": self.secrets}
        with ExitStack() as stack:
            followed = {kind: stack.enter_context(each.subscribe()) for kind, each in readers.items() if each}
            async with asyncio.TaskGroup() as group:
                for kind, changes in followed.items():
                    start_supervised(group, f"changed {kind}s", partial(_tell, kind, changes, changed))
                ready.set()


async def _tell(kind: str, changes: Changes, changed: Callable[[Named | None], None]) -> None:
    while True:
        try:
            changed(Named(kind, *await changes.next()))
        except Lagged:
            changed(None)


async def _read(
    reader: ObjectReader[T] | None, noun: str, namespace: str, names: Iterable[str]
) -> dict[str, T | Exception]:
    results: dict[str, T | Exception] = {}
    for name in sorted(names):
        if reader is None:
            results[name] = LookupError(f"couldn't get {noun} {namespace}/{name}, no kubeClient defined")
            continue
        try:
            results[name] = await reader.get(namespace, name)
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer for this name
            results[name] = error
    return results
