"""Creates, deletes and claims the pods of DaemonSets, and delays the deletion of failed ones.

Without the delay a set and a node that rejects its pods would recreate pods in a tight loop.

Upstream: pkg/controller/daemon/daemon_controller.go, staging/src/k8s.io/client-go/util/flowcontrol/backoff.go
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.apps import DaemonSet
from pykubelet.api.generated.core import Pod
from pykubelet.api.labels import selector_from_object
from pykubelet.api.scheme import DAEMON_SETS
from pykubelet.client.indexer import PodIndex, key_of
from pykubelet.client.interface import Client
from pykubelet.controllers.daemon.placement import DaemonPodRevision, template_for
from pykubelet.controllers.framework.expectations import CountingExpectations
from pykubelet.controllers.framework.ownership import PodControllerRefManager, may_adopt, new_controller_ref
from pykubelet.controllers.framework.pod_control import (
    AggregateError,
    PodControlInterface,
    attempt_all,
    slow_start_batch,
    terminating_namespace_ignored,
)

FIRST_SECONDS = 1.0
LIMIT_SECONDS = 15 * 60.0
# A key unused for this long starts over.
_FORGOTTEN_AFTER_SECONDS = 2 * LIMIT_SECONDS


@dataclass(frozen=True, slots=True)
class _PodDelay:
    seconds: float
    since: float


class DaemonPods:
    """The requests of DaemonSets for pods, with their expectations."""

    def __init__(
        self,
        *,
        client: Client,
        pod_control: PodControlInterface,
        pods: PodIndex,
        expectations: CountingExpectations,
        clock: Clock,
        burst: int,
    ) -> None:
        """`burst` limits how many pods are created, and how many deleted, per call."""
        self._client, self._pod_control, self._pods = client, pod_control, pods
        self._expectations, self._clock, self._burst = expectations, clock, burst

    async def claimed(self, daemon_set: DaemonSet) -> tuple[Pod, ...]:
        """The set's pods after adopting and releasing; ClaimError if some of that failed."""
        manager = PodControllerRefManager(
            pod_control=self._pod_control,
            owner=daemon_set,
            selector=selector_from_object(daemon_set.spec.selector),
            can_adopt=may_adopt(self._client, DAEMON_SETS, daemon_set),
        )
        return await manager.claim_or_raise(self._pods.of_owner(daemon_set, with_orphans=True))

    async def change(
        self, daemon_set: DaemonSet, revision: DaemonPodRevision, *, create: Sequence[str], delete: Sequence[Pod]
    ) -> None:
        """Creates pods for nodes and deletes pods, up to the burst; AggregateError if some of it failed."""
        create, delete = create[: self._burst], delete[: self._burst]
        now = self._clock.monotonic()
        self._expectations.set(key_of(daemon_set), add=len(create), delete=len(delete), now_seconds=now)
        errors = await self._create(daemon_set, create, revision)
        errors += await self._delete(daemon_set, delete)
        if errors:
            raise AggregateError(errors)

    async def relabel(self, pod: Pod, label: str, value: str) -> None:
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid, "labels": {label: value}}}
        await self._pod_control.patch_pod(meta.namespace, meta.name, body)

    async def _create(
        self, daemon_set: DaemonSet, names: Sequence[str], revision: DaemonPodRevision
    ) -> list[Exception]:
        """Creates a pod for each node with slow start; pods not created are no longer expected."""
        namespace, reference = daemon_set.metadata.namespace, new_controller_ref(daemon_set)
        left, errors = iter(names), list[Exception]()

        async def create() -> None:
            template = template_for(daemon_set, next(left), revision)
            try:
                with terminating_namespace_ignored():
                    await self._pod_control.create_pods(namespace, template, daemon_set, reference)
            except Exception as error:
                errors.append(error)
                raise

        created, _ = await slow_start_batch(len(names), create)
        self._expectations.lower(key_of(daemon_set), add=len(names) - created)
        return errors

    async def _delete(self, daemon_set: DaemonSet, pods: Sequence[Pod]) -> list[Exception]:
        control, namespace = self._pod_control, daemon_set.metadata.namespace
        outcomes = await attempt_all(control.delete_pod(namespace, pod.metadata.name, daemon_set) for pod in pods)
        errors = [error for error in outcomes if error is not None]
        self._expectations.lower(key_of(daemon_set), delete=len(errors))
        return [error for error in errors if not isinstance(error, NotFound)]


class FailedPodBackoff:
    """An exponential backoff per key, in monotonic seconds; unused keys expire."""

    def __init__(self) -> None:
        # Oldest first, since every change moves its key to the end.
        self._delays: dict[str, _PodDelay] = {}

    def __len__(self) -> int:
        return len(self._delays)

    def delay_seconds(self, key: str) -> float:
        found = self._delays.get(key)
        return found.seconds if found is not None else 0.0

    def is_waiting(self, key: str, now_seconds: float) -> bool:
        found = self._delays.get(key)
        return found is not None and now_seconds - found.since < found.seconds

    def start(self, key: str, now_seconds: float) -> None:
        """Starts the next delay, twice the previous one."""
        while self._delays:
            oldest = next(iter(self._delays))
            if now_seconds - self._delays[oldest].since <= _FORGOTTEN_AFTER_SECONDS:
                break
            del self._delays[oldest]
        last = self._delays.pop(key, None)
        seconds = FIRST_SECONDS if last is None else min(2 * last.seconds, LIMIT_SECONDS)
        self._delays[key] = _PodDelay(seconds, now_seconds)
