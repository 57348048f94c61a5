"""The TTL-after-finished controller: deletes finished Jobs when their time to live expires.

Nothing runs before a job expires: the queue delays its key until then.

Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go
"""

from contextlib import suppress
from datetime import datetime

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.batch import Job
from pykubelet.api.generated.meta import DeleteOptions, Preconditions
from pykubelet.api.scheme import JOBS
from pykubelet.api.times import parse_time, seconds_after
from pykubelet.client.indexer import ObjectIndex, key_of
from pykubelet.client.informers import Informers
from pykubelet.client.interface import Client
from pykubelet.controllers.framework.work_queue import KeyedController, WorkQueue
from pykubelet.controllers.job.status import finished_condition


class TtlAfterFinishedController(KeyedController):
    """Syncs jobs by key. Event handlers only enqueue; `sync` acts."""

    def __init__(self, *, client: Client, jobs: ObjectIndex[Job], clock: Clock) -> None:
        self._client, self._jobs, self._clock = client, jobs, clock
        self.queue = WorkQueue()

    def listen(self, informers: Informers) -> None:
        informers.add_event_handler(JOBS, changed=self.job_changed)

    def job_changed(self, job: Job) -> None:
        if expires_at(job) is not None:
            self.queue.add(key_of(job))

    async def sync(self, key: str) -> None:
        """Deletes the job if it has expired, else enqueues it for when it will. Raises what went wrong."""
        job = self._jobs.get(key)
        if job is None or not self._is_expired(job):
            return
        # The cached job may be old, and its TTL may have been extended.
        name, namespace = job.metadata.name, job.metadata.namespace
        with suppress(NotFound):
            fresh = await self._client.get(JOBS, name, namespace=namespace)
            if self._is_expired(fresh):
                only_this = Preconditions(uid=fresh.metadata.uid)
                options = DeleteOptions(propagation_policy="Foreground", preconditions=only_this)
                await self._client.delete(JOBS, name, namespace=namespace, options=options)

    def _is_expired(self, job: Job) -> bool:
        end = expires_at(job)
        if end is None:
            return False
        left = (end - self._clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(key_of(job), left)
        return left <= 0


def expires_at(job: Job) -> datetime | None:
    """When a finished job expires; None if it has not finished, has no TTL, or is being deleted."""
    seconds = job.spec.ttl_seconds_after_finished
    if seconds is None or job.metadata.deletion_timestamp is not None:
        return None
    condition = finished_condition(job)
    finished = None if condition is None else condition.last_transition_time
    return None if finished is None else seconds_after(parse_time(finished), seconds)
