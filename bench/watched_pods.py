"""Follows the pods of a server with a watch, and notes the time at which a condition becomes true."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from time import perf_counter

import aiohttp
import msgspec
from msgspec import Struct

PATIENCE_SECONDS = 300.0


class Unmeasurable(Exception):
    """A condition that was to be measured did not come true."""


class Metadata(Struct, gc=False, rename="camel"):
    name: str = ""
    labels: dict[str, str] = {}
    resource_version: str = ""


class Condition(Struct, gc=False, rename="camel"):
    type: str
    status: str


class State(Struct, gc=False, rename="camel"):
    running: dict[str, str] | None = None


class ContainerStatus(Struct, gc=False, rename="camel"):
    restart_count: int
    state: State


class Status(Struct, gc=False, rename="camel"):
    phase: str = ""
    conditions: list[Condition] = []
    container_statuses: list[ContainerStatus] = []


class WatchedPod(Struct, gc=False, rename="camel"):
    """Only the fields that measurements need, since decoding a whole pod would be measured too."""

    metadata: Metadata
    status: Status = msgspec.field(default_factory=Status)


class Change(Struct, gc=False, rename="camel"):
    type: str
    object: WatchedPod


class PodList(Struct, gc=False, rename="camel"):
    metadata: Metadata
    items: list[WatchedPod]


Wish = Callable[[WatchedPod | None], bool]
"""Whether a pod is as somebody waits for it to be; None: there is no such pod."""


def is_there(pod: WatchedPod | None) -> bool:
    return pod is not None


def is_gone(pod: WatchedPod | None) -> bool:
    return pod is None


def is_ready(pod: WatchedPod | None) -> bool:
    return pod is not None and any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


def has_succeeded(pod: WatchedPod | None) -> bool:
    return pod is not None and pod.status.phase == "Succeeded"


def runs_again(pod: WatchedPod | None) -> bool:
    return pod is not None and any(
        one.restart_count > 0 and one.state.running is not None for one in pod.status.container_statuses
    )


class WatchedPods:
    """One watch of all pods, as a user's program would have it."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http, self._url = http, f"{url}/api/v1/pods"
        self._pods: dict[str, WatchedPod] = {}
        self._waiting: dict[str, list[tuple[Wish, asyncio.Future[float]]]] = defaultdict(list)

    async def run(self, started: asyncio.Event) -> None:
        async with self._http.get(self._url) as response:
            listed = msgspec.json.decode(await response.read(), type=PodList)
        self._pods = {pod.metadata.name: pod for pod in listed.items}
        query = {"watch": "1", "resourceVersion": listed.metadata.resource_version, "timeoutSeconds": "3600"}
        changes = msgspec.json.Decoder(Change)
        async with self._http.get(self._url, params=query) as response:
            started.set()
            async for line in response.content:
                self._take(changes.decode(line))
        raise Unmeasurable("the watch has ended")

    def _take(self, change: Change) -> None:
        now, pod, name = perf_counter(), change.object, change.object.metadata.name
        if change.type == "DELETED":
            self._pods.pop(name, None)
        else:
            self._pods[name] = pod
        waiting = self._waiting.pop(name, [])
        for wish, moment in waiting:
            if moment.cancelled():
                continue
            if wish(self._pods.get(name)):
                moment.set_result(now)
            else:
                self._waiting[name].append((wish, moment))

    async def when(self, name: str, wish: Wish) -> float:
        """The time at which the watch shows the pod in the wanted state; the current time if it already is."""
        if wish(self._pods.get(name)):
            return perf_counter()
        moment: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[name].append((wish, moment))
        try:
            return await asyncio.wait_for(moment, PATIENCE_SECONDS)
        except TimeoutError:
            raise Unmeasurable(f"{wish.__name__}({name}) did not come true: {self._pods.get(name)}") from None
