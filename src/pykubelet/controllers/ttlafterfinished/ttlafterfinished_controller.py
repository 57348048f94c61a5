"""Deletes finished Jobs when their time to live is over.

In: changes of jobs, told after the index has been brought up to date. Out: deletions of jobs, with their pods. Nothing
is done before a job's time is over: the queue wakes at that moment.
Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go.

When a finished Job has outlived its use.

Pure. Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go.
"""

from datetime import datetime, timedelta

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.scheme import JOBS
from pykubelet.api.times import parse_time
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.controllers.framework.work_queue import WorkQueue
from pykubelet.controllers.job.status import COMPLETE, FAILED


def expires_at(job: Job) -> datetime | None:
    """The end of a job's time to live; None if it has not finished, has none, or is being deleted already."""
    seconds = job.spec.ttl_seconds_after_finished
    if seconds is None or job.metadata.deletion_timestamp is not None:
        return None
    conditions = job.status.conditions
    ends = (one for one in conditions if one.type in (COMPLETE, FAILED) and one.status == "True")
    finished = next((one.last_transition_time for one in ends), None)
    return None if finished is None else parse_time(finished) + timedelta(seconds=seconds)


class TtlAfterFinishedController:
    """Syncs jobs by key. Events only put keys into `queue`; `sync` acts."""

    def __init__(self, *, client: Client, jobs: ObjectIndex[Job], clock: Clock) -> None:
        self._client, self._jobs, self._clock = client, jobs, clock
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        """Have changes of jobs told; the index given to the constructor is that of the informers."""
        informers.add_event_handler(
            JOBS, added=self.job_changed, updated=lambda _, job: self.job_changed(job), deleted=lambda _: None
        )

    def job_changed(self, job: Job) -> None:
        """A job is new or has changed; only one that will expire matters."""
        if expires_at(job) is not None:
            self.queue.add(key_of(job))

    async def process_next(self) -> None:
        """Sync the next key of the queue; a failure puts it back, later."""
        await self.queue.process_next(self.sync)

    async def sync(self, key: str) -> None:
        """Delete the job if its time is over, or look again when it is. Raises what went wrong."""
        job = self._jobs.get(key)
        if job is None or not self._is_over(job):
            return
        # Our copy may be old, and the time may have been prolonged.
        name, namespace = job.metadata.name, job.metadata.namespace
        try:
            fresh = await self._client.get(JOBS, name, namespace=namespace)
            if not self._is_over(fresh):
                return
            only_this = Preconditions(uid=fresh.metadata.uid)
            options = DeleteOptions(propagation_policy="Foreground", preconditions=only_this)
            await self._client.delete(JOBS, name, namespace=namespace, options=options)
        except NotFound:
            return

    def _is_over(self, job: Job) -> bool:
        end = expires_at(job)
        if end is None:
            return False
        left = (end - self._clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(key_of(job), left)
        return left <= 0
