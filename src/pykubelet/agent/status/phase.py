"""The phase of a pod, from its spec and the statuses of its containers.

Each container counts as one of a few things, and the counts decide. What has ended but waits to be started again
counts as stopped, so a pod that crashes and restarts stays Running. Pure.
Upstream: getPhase in pkg/kubelet/kubelet_pods.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum, auto

from pykubelet.api.generated.core import ContainerStatus, Pod
from pykubelet.api.pods import is_restartable_init_container, is_static_pod

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"


class _Is(Enum):
    """What a container counts as."""

    UNKNOWN = auto()
    RUNNING = auto()
    WAITING = auto()
    STOPPED = auto()


def pod_phase(
    pod: Pod, statuses: Iterable[ContainerStatus], *, is_terminal: bool = False, has_initialized: bool = False
) -> str:
    """The phase; `statuses` are those of init and regular containers in one.

    `is_terminal` says that nothing of the pod will be started again, `has_initialized` that a regular container was
    started in the present sandbox.
    """
    # Where a name occurs twice the first one counts.
    by_name = {status.name: status for status in reversed(tuple(statuses))}
    plain = [one for one in pod.spec.init_containers if not is_restartable_init_container(one)]
    if any(_has_failed(by_name.get(one.name)) for one in plain) and pod.spec.restart_policy == "Never":
        return FAILED
    if any(_is_pending(by_name.get(one.name)) for one in plain):
        return PENDING
    sidecars = [by_name.get(one.name) for one in pod.spec.init_containers if is_restartable_init_container(one)]
    if not has_initialized and any(map(_is_pending_sidecar, sidecars)):
        return PENDING
    return _phase_of_initialized(pod, sidecars, by_name, is_terminal=is_terminal)


def _phase_of_initialized(
    pod: Pod,
    sidecars: Iterable[ContainerStatus | None],
    by_name: Mapping[str, ContainerStatus],
    *,
    is_terminal: bool,
) -> str:
    regular = [by_name.get(container.name) for container in pod.spec.containers]
    counts = Counter(_kind(one) for one in regular)
    stopped = counts[_Is.STOPPED]
    # Sidecars that have stopped say nothing about how far the pod has come.
    counts.update(_kind(one) for one in sidecars)
    if counts[_Is.WAITING] or counts[_Is.UNKNOWN]:
        return PENDING
    if counts[_Is.RUNNING]:
        return RUNNING
    if not stopped:
        return PENDING
    all_succeeded = all(map(_has_succeeded, regular))
    # What ends a pod but not its containers' policy does not end a static pod, which is to run for ever.
    if is_terminal and not is_static_pod(pod):
        return SUCCEEDED if all_succeeded else FAILED
    if pod.spec.restart_policy == "Always":
        return RUNNING
    if all_succeeded:
        return SUCCEEDED
    return FAILED if pod.spec.restart_policy == "Never" else RUNNING


def _kind(status: ContainerStatus | None) -> _Is:
    if status is None:
        return _Is.UNKNOWN
    state = status.state
    if state.running is not None:
        return _Is.RUNNING
    if state.terminated is not None:
        return _Is.STOPPED
    if state.waiting is not None:
        return _Is.STOPPED if status.last_state.terminated is not None else _Is.WAITING
    return _Is.UNKNOWN


def _has_succeeded(status: ContainerStatus | None) -> bool:
    ended = status.state.terminated if status is not None else None
    return ended is not None and ended.exit_code == 0


def _has_failed(status: ContainerStatus | None) -> bool:
    """Whether a plain init container has ended badly, even if it is about to be tried again."""
    if status is None or status.state.running is not None:
        return False
    ended = status.state.terminated
    if ended is None and status.state.waiting is not None:
        ended = status.last_state.terminated
    return ended is not None and ended.exit_code != 0


def _is_pending(status: ContainerStatus | None) -> bool:
    return _kind(status) is not _Is.STOPPED


def _is_pending_sidecar(status: ContainerStatus | None) -> bool:
    if status is None:
        return False
    kind = _kind(status)
    return kind in {_Is.WAITING, _Is.UNKNOWN} or (kind is _Is.RUNNING and not status.started)
