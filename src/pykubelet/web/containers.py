"""The containers of a pod as the page shows them.

In: a pod and its status. Out: a line for each container, in the order in which they start.
"""

from collections.abc import Iterator

from msgspec import Struct

from pykubelet.api.generated.core import Container, ContainerStatus, EphemeralContainer, Pod, PodStatus
from pykubelet.api.pods import is_restartable_init_container
from pykubelet.web.pod_row import Tone


class ContainerRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One container."""

    name: str
    kind: str
    image: str
    word: str
    tone: Tone
    message: str = ""
    since: str = ""
    restarts: int = 0
    is_ready: bool = False
    has_log: bool = False
    has_previous: bool = False
    last_end: str = ""


def container_rows(pod: Pod, status: PodStatus) -> tuple[ContainerRow, ...]:
    """All of a pod."""
    listed = (*status.init_container_statuses, *status.container_statuses, *status.ephemeral_container_statuses)
    known = {one.name: one for one in listed}
    return tuple(_row(kind, one, known.get(one.name)) for kind, one in _declared(pod))


def _declared(pod: Pod) -> Iterator[tuple[str, Container | EphemeralContainer]]:
    for one in pod.spec.init_containers:
        yield "sidecar" if is_restartable_init_container(one) else "init", one
    for one in pod.spec.containers:
        yield "", one
    for debug in pod.spec.ephemeral_containers:
        yield "debug", debug


def _row(kind: str, declared: Container | EphemeralContainer, status: ContainerStatus | None) -> ContainerRow:
    name, image = declared.name, declared.image
    if status is None:
        return ContainerRow(name=name, kind=kind, image=image, word="not yet started", tone=Tone.WAITING)
    word, tone, message, since = _state(status)
    before = status.last_state.terminated
    return ContainerRow(
        name=name,
        kind=kind,
        image=image,
        word=word,
        tone=tone,
        message=message,
        since=since,
        restarts=status.restart_count,
        is_ready=status.ready,
        has_log=bool(status.container_id),
        has_previous=before is not None and bool(before.container_id),
        last_end=_ended(before.exit_code, before.reason) if before is not None else "",
    )


def _state(status: ContainerStatus) -> tuple[str, Tone, str, str]:
    """Word, tone, message, since when."""
    running, ended, waiting = status.state.running, status.state.terminated, status.state.waiting
    if running is not None:
        is_well = status.ready or status.started
        return "running", Tone.GOOD if is_well else Tone.WAITING, "", running.started_at or ""
    if ended is not None:
        tone = Tone.DONE if ended.exit_code == 0 else Tone.BAD
        return _ended(ended.exit_code, ended.reason), tone, ended.message, ended.finished_at or ""
    if waiting is not None:
        is_starting = waiting.reason in {"", "ContainerCreating", "PodInitializing"}
        return waiting.reason or "waiting", Tone.WAITING if is_starting else Tone.BAD, waiting.message, ""
    return "waiting", Tone.WAITING, "", ""


def _ended(code: int, reason: str) -> str:
    return f"ended with {code}" + (f" ({reason})" if reason and reason not in {"Completed", "Error"} else "")
