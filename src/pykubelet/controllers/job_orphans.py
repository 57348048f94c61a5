"""Frees pods whose Job will not count them any more: it is gone, it has finished, or it lost them.

In: pods that still have the finalizer, from `JobEvents`. Out: the finalizer taken off, so that they can be deleted.
Upstream: syncOrphanPod in pkg/controller/job/job_controller.go.
"""

from typing import Any, Protocol

from pykubelet.aio.backoff import Backoff
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import pod_label
from pykubelet.controllers.job_conditions import is_finished
from pykubelet.controllers.job_facts import has_tracking_finalizer, is_ours
from pykubelet.controllers.job_pods import REMOVE_FINALIZER
from pykubelet.controllers.object_index import ObjectIndex
from pykubelet.controllers.pod_index import PodIndex
from pykubelet.controllers.pod_order import controller_of
from pykubelet.controllers.work_queue import WorkQueue

_RETRY = Backoff(first_seconds=1, limit_seconds=60)


class PodPatcher(Protocol):
    """The part of PodControl that this needs."""

    async def patch_pod(self, namespace: str, name: str, patch: Any) -> None:
        """Apply a strategic merge patch to a pod."""


class JobOrphans:
    """The pods to free, by `namespace/name`."""

    def __init__(self, *, pod_control: PodPatcher, pods: PodIndex, jobs: ObjectIndex[Job]) -> None:
        self._pod_control, self._pods, self._jobs = pod_control, pods, jobs
        self.queue = WorkQueue(_RETRY)

    def note(self, pod: Pod) -> None:
        """A pod may have lost its job."""
        if has_tracking_finalizer(pod):
            self.queue.add(pod_label(pod))

    def note_all(self, job: Job) -> None:
        """A job is over; it has left no pod to be counted, unless something went wrong."""
        for pod in self._pods.of_owner(job):
            self.note(pod)

    async def process_next(self) -> None:
        """Look at the next pod; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, label: str) -> None:
        """Take the finalizer off, if nobody counts the pod. Raises what went wrong."""
        pod = self._pods.get(label)
        if pod is None or not has_tracking_finalizer(pod) or not self._is_lost(pod):
            return
        try:
            await self._pod_control.patch_pod(pod.metadata.namespace, pod.metadata.name, REMOVE_FINALIZER)
        except NotFound:
            return

    def _is_lost(self, pod: Pod) -> bool:
        reference = controller_of(pod)
        if reference is None:
            return True
        if (reference.api_version, reference.kind) != ("batch/v1", "Job"):
            return False
        job = self._jobs.resolve(pod.metadata.namespace, reference)
        return job is None or (is_ours(job) and is_finished(job))
