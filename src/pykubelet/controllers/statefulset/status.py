"""The status of a StatefulSet: how many of its pods there are, do their work, are of which version.

Pure. Upstream: updateStatus, completeRollingUpdate and inconsistentStatus in pkg/controller/statefulset.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from pykubelet.api.generated.apps import StatefulSet, StatefulSetStatus
from pykubelet.api.generated.core import Pod
from pykubelet.controllers.pod_order import is_available
from pykubelet.controllers.revision_plan import REVISION_LABEL
from pykubelet.controllers.statefulset.identity import wanted_replicas
from pykubelet.controllers.statefulset.plan import ROLLING_UPDATE, is_running_and_ready


def compute_status(
    stateful_set: StatefulSet, pods: Sequence[Pod], current: str, update: str, now: datetime, *, is_update: bool = False
) -> StatefulSetStatus:
    """The status with these pods, and the names of the revisions before and after the update.

    `is_update`: one more pod is about to be replaced.
    """
    ready = [pod for pod in pods if is_running_and_ready(pod)]
    staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
    revisions = [pod.metadata.labels.get(REVISION_LABEL, "") for pod in staying]
    status = replace(
        stateful_set.status,
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=sum(is_available(pod, stateful_set.spec.min_ready_seconds, now) for pod in ready),
        current_replicas=max(0, revisions.count(current) - int(is_update)),
        updated_replicas=revisions.count(update),
        current_revision=current,
        update_revision=update,
    )
    return _completed(stateful_set, status)


def _completed(stateful_set: StatefulSet, status: StatefulSetStatus) -> StatefulSetStatus:
    """An update has come to its end when all pods there are to be are of the new version and ready."""
    counts = {status.replicas, status.ready_replicas, status.updated_replicas}
    if stateful_set.spec.update_strategy.type != ROLLING_UPDATE or counts != {wanted_replicas(stateful_set)}:
        return status
    return replace(status, current_revision=status.update_revision, current_replicas=status.updated_replicas)
