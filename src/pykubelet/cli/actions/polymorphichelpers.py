"""Reads logs of containers, one after the other, or all at once while they grow.

Finds the pod that a person means by its name, or by that of what it belongs to.

Which pod and container a person means, by what it belongs to and by what is most useful.

In: documents. Out: a selector, a pod, containers.

Upstream: kubectl/pkg/polymorphichelpers/{helpers,attachablepodforobject}.go, kubectl/pkg/util/podutils/podutils.go,
kubectl/pkg/cmd/util/podcmd/podcmd.go.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from pykubelet.api.errors import ApiError
from pykubelet.api.labels import selector_from_document, selector_from_labels
from pykubelet.api.schema import PODS
from pykubelet.api.serializer import Document
from pykubelet.cli.actions.resource_args import resource_of
from pykubelet.cli.actions.session import ApiSession, LogRequestOptions, log_plan
from pykubelet.client.interface import Selection

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_BY_PLAIN_LABELS = frozenset({"Service", "ReplicationController"})
_PHASES = {"Running": 0, "Unknown": 1, "Pending": 2}
_LISTS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The log of one container."""

    namespace: str
    pod: str
    container: str


WriteLog = Callable[[ContainerLog, bytes], None]
"""Takes whole lines, but for the last one of a log."""


async def read_logs(
    session: ApiSession, logs: Sequence[ContainerLog], options: LogRequestOptions, write: WriteLog
) -> list[ApiError]:
    """Read them all; what could not be read. Those that are followed are read at once, others in their order."""
    if not options.follow:
        return [error for log in logs if (error := await _read(session, log, options, write)) is not None]
    errors: list[ApiError] = []
    unwritten: list[OSError] = []

    async def follow(log: ContainerLog) -> None:
        try:
            error = await _read(session, log, options, write)
        except OSError as broken:
            # Nobody reads what is written: it is the end for all of them.
            unwritten.append(broken)
            for task in tasks:
                task.cancel()
        else:
            errors.extend([error] if error is not None else [])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(follow(log), name=f"log of {log.pod}/{log.container}") for log in logs]
    if unwritten:
        raise unwritten[0]
    return errors


async def _read(session: ApiSession, log: ContainerLog, options: LogRequestOptions, write: WriteLog) -> ApiError | None:
    try:
        async with session.client.stream(log_plan(log.namespace, log.pod, log.container, options)) as chunks:
            async for lines in _whole_lines(chunks):
                write(log, lines)
    except ApiError as error:
        return error
    return None


async def _whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes, cut at ends of lines, so that those of several logs do not mix."""
    rest = b""
    async for chunk in chunks:
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield rest


def selector_of_pods(owner: Document) -> str:
    """The labels of the pods that belong to an object; empty if it has none."""
    selector = (owner.get("spec") or {}).get("selector")
    if not selector:
        return ""
    if owner.get("kind") in _BY_PLAIN_LABELS:
        return str(selector_from_labels(selector))
    return str(selector_from_document(selector))


def preferred_pod(pods: Sequence[Document]) -> Document:
    """Of several the one to look at: on a node, running, ready and for long, seldom restarted, old."""
    return min(pods, key=_rank)


def _rank(pod: Document) -> tuple[bool, int, bool, str, int, str]:
    status = pod.get("status") or {}
    ready: Document = next((one for one in status.get("conditions") or () if one.get("type") == "Ready"), {})
    restarts = max((one.get("restartCount", 0) for one in status.get("containerStatuses") or ()), default=0)
    return (
        not pod["spec"].get("nodeName"),
        _PHASES.get(status.get("phase", ""), 0),
        ready.get("status") != "True",
        str(ready.get("lastTransitionTime", "")),
        restarts,
        str(pod["metadata"].get("creationTimestamp", "")),
    )


def container_names(pod: Document) -> tuple[str, ...]:
    """All containers of a pod: init containers, then the others, then ephemeral ones."""
    return tuple(one["name"] for key in _LISTS for one in pod["spec"].get(key) or ())


def default_container(pod: Document) -> tuple[str, str]:
    """The container that is meant where none is named, and a line on it if there are others."""
    wished = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER, "")
    names = container_names(pod)
    if wished in names:
        return wished, ""
    first = pod["spec"]["containers"][0]["name"]
    if len(names) == 1:
        return first, ""
    order = ("containers", "ephemeralContainers", "initContainers")
    marks = {"ephemeralContainers": " (ephem)", "initContainers": " (init)"}
    shown = [one["name"] + marks.get(key, "") for key in order for one in pod["spec"].get(key) or ()]
    return first, f'Defaulted container "{first}" out of: {", ".join(shown)}'


class NoPod(Exception):
    """There is none to choose."""


@dataclass(frozen=True, slots=True)
class ChosenPod:
    """A pod; how many there were to choose from; and what it was named by, if not itself."""

    pod: Document
    candidates: int = 1
    owner: Document | None = None

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])


async def pod_of(session: ApiSession, word: str) -> ChosenPod:
    """The pod `web`, `pod/web`, or one of `deploy/web`. NoPod, UnknownResource; ApiError."""
    kind, slash, name = word.rpartition("/")
    if not slash or kind in {"po", "pod", "pods"}:
        return ChosenPod(await session.get(PODS, session.namespace, name))
    resource = resource_of(kind, await session.catalogue()).resource
    if resource == PODS:
        return ChosenPod(await session.get(PODS, session.namespace, name))
    owner = await session.get(resource, session.namespace, name)
    selector = selector_of_pods(owner)
    if not selector:
        raise NoPod(f"{word} has no selector, so it has no pods of its own")
    pods = await session.list(PODS, session.namespace, Selection(selector))
    if not pods:
        raise NoPod(f"{word} has no pods now")
    return ChosenPod(preferred_pod(pods), len(pods), owner)
