"""Finds the pod and container that a user means, and reads container logs.

`deploy/web` stands for one of its pods, chosen as kubectl does. Logs are read one after the other, or all at once while
they are followed.

Upstream: staging/src/k8s.io/kubectl/pkg/polymorphichelpers/helpers.go,
staging/src/k8s.io/kubectl/pkg/polymorphichelpers/attachablepodforobject.go,
staging/src/k8s.io/kubectl/pkg/util/podutils/podutils.go, staging/src/k8s.io/kubectl/pkg/cmd/util/podcmd/podcmd.go
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from pykubelet.api.errors import ApiError
from pykubelet.api.labels import selector_from_document, selector_from_labels
from pykubelet.api.schema import PODS
from pykubelet.api.serializer import Document
from pykubelet.cli.actions.resource_args import NoPod, resource_of
from pykubelet.cli.actions.session import ApiSession, LogRequestOptions, log_plan
from pykubelet.client.interface import Selection

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_BY_PLAIN_LABELS = frozenset({"Service", "ReplicationController"})
_PHASES = {"Running": 0, "Unknown": 1, "Pending": 2}
_LISTS = ("initContainers", "containers", "ephemeralContainers")


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The pod and container of a log."""

    namespace: str
    pod: str
    container: str


WriteLog = Callable[[ContainerLog, bytes], None]
"""Receives whole lines, except for the last one of a log."""


async def read_logs(
    session: ApiSession, logs: Sequence[ContainerLog], options: LogRequestOptions, write: WriteLog
) -> list[ApiError]:
    """Read logs in order, or concurrently if they are followed; returns the errors."""
    if not options.follow:
        return [error for log in logs if (error := await _read(session, log, options, write)) is not None]
    errors: list[ApiError] = []
    unwritten: list[OSError] = []

    async def follow(log: ContainerLog) -> None:
        try:
            error = await _read(session, log, options, write)
        except OSError as broken:
            # The output is closed: end all logs.
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
    """Chunks cut at line ends, so that several logs do not mix within a line."""
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
    """The label selector of an object's pods; empty if it has none."""
    selector = (owner.get("spec") or {}).get("selector")
    if not selector:
        return ""
    if owner.get("kind") in _BY_PLAIN_LABELS:
        return str(selector_from_labels(selector))
    return str(selector_from_document(selector))


def preferred_pod(pods: Sequence[Document]) -> Document:
    """The pod to use: scheduled, running, ready for longest, least restarted, oldest."""
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
    """All containers of a pod: init containers, containers, ephemeral containers."""
    return tuple(one["name"] for key in _LISTS for one in pod["spec"].get(key) or ())


def default_container(pod: Document) -> tuple[str, str]:
    """The default container of a pod, and a note if there are others."""
    annotated = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER, "")
    names = container_names(pod)
    if annotated in names:
        return annotated, ""
    first = pod["spec"]["containers"][0]["name"]
    if len(names) == 1:
        return first, ""
    order = ("containers", "ephemeralContainers", "initContainers")
    marks = {"ephemeralContainers": " (ephem)", "initContainers": " (init)"}
    shown = [one["name"] + marks.get(key, "") for key in order for one in pod["spec"].get(key) or ()]
    return first, f'Defaulted container "{first}" out of: {", ".join(shown)}'


@dataclass(frozen=True, slots=True)
class ChosenPod:
    """The chosen pod, the number of candidates, and the object that was named if not the pod."""

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
    """The pod `web`, `pod/web`, or one of `deploy/web`. Raises NoPod, UnknownResourceType or ApiError."""
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
