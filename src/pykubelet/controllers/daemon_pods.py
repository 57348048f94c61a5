"""The pods of DaemonSets in the API: claimed, created, deleted, and awaited until they are seen.

In: what the plans decide. Out: calls to PodControl, and expectations.
Upstream: getDaemonPods and syncNodes in pkg/controller/daemon/daemon_controller.go.
"""

from collections.abc import Sequence

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.apps import DaemonSet
from pykubelet.api.generated.core import Pod
from pykubelet.api.selector import selector_from_object
from pykubelet.api.typed import DAEMON_SETS
from pykubelet.controllers.daemon_plan import Revision, template_for
from pykubelet.controllers.expectations import CountingExpectations
from pykubelet.controllers.object_index import key_of
from pykubelet.controllers.owner_access import OwnerClient, may_adopt
from pykubelet.controllers.ownership import PodOwnership, new_controller_ref
from pykubelet.controllers.pod_actions import AggregateError, PodActions, attempt_all
from pykubelet.controllers.pod_control import NAMESPACE_TERMINATING
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.controllers.slow_start import slow_start_batch


class DaemonPods:
    """What is done to the pods of sets."""

    def __init__(
        self,
        *,
        client: OwnerClient,
        pod_control: PodActions,
        pods: PodIndex,
        expectations: CountingExpectations,
        clock: Clock,
        burst: int,
    ) -> None:
        """`burst`: how many pods are created, and how many deleted, at once."""
        self._client, self._pod_control, self._pods = client, pod_control, pods
        self._expectations, self._clock, self._burst = expectations, clock, burst

    async def claimed(self, daemon_set: DaemonSet) -> tuple[Pod, ...]:
        """The set's pods, after adopting and releasing; ClaimError if some of that failed."""
        ownership = PodOwnership(
            pod_control=self._pod_control,
            owner=daemon_set,
            selector=selector_from_object(daemon_set.spec.selector),
            can_adopt=may_adopt(self._client, DAEMON_SETS, daemon_set),
        )
        claimed = await ownership.claim_pods(self._pods.of_owner(daemon_set, with_orphans=True))
        if claimed.error is not None:
            raise claimed.error
        return claimed.pods

    async def change(
        self, daemon_set: DaemonSet, revision: Revision, *, create: Sequence[str], delete: Sequence[Pod]
    ) -> None:
        """Create pods for nodes and delete pods, not too many at once; AggregateError if some of it failed."""
        create, delete = create[: self._burst], delete[: self._burst]
        now = self._clock.monotonic()
        self._expectations.set(key_of(daemon_set), add=len(create), delete=len(delete), now_seconds=now)
        errors = await self._create(daemon_set, create, revision)
        errors += await self._delete(daemon_set, delete)
        if errors:
            raise AggregateError(errors)

    async def relabel(self, pod: Pod, label: str, value: str) -> None:
        """Set a label of a pod."""
        meta = pod.metadata
        body = {"metadata": {"uid": meta.uid, "labels": {label: value}}}
        await self._pod_control.patch_pod(meta.namespace, meta.name, body)

    async def _create(self, daemon_set: DaemonSet, names: Sequence[str], revision: Revision) -> list[Exception]:
        """Create a pod for each node, slowly at first; what was not created is no longer expected."""
        namespace, reference = daemon_set.metadata.namespace, new_controller_ref(daemon_set)
        left, errors = iter(names), list[Exception]()

        async def create() -> None:
            template = template_for(daemon_set, next(left), revision)
            try:
                await self._pod_control.create_pods(namespace, template, daemon_set, reference)
            except Exception as error:
                # Nothing can be made in a namespace that goes away, and nothing needs to be.
                if isinstance(error, ApiError) and error.has_cause(NAMESPACE_TERMINATING):
                    return
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
