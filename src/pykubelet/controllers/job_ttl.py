"""When a finished Job has outlived its use.

Pure. Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go.
"""

from datetime import datetime, timedelta

from pykubelet.api.generated.batch import Job
from pykubelet.api.times import parse_time
from pykubelet.controllers.job_conditions import COMPLETE, FAILED


def expires_at(job: Job) -> datetime | None:
    """The end of a job's time to live; None if it has not finished, has none, or is being deleted already."""
    seconds = job.spec.ttl_seconds_after_finished
    if seconds is None or job.metadata.deletion_timestamp is not None:
        return None
    conditions = job.status.conditions
    ends = (one for one in conditions if one.type in (COMPLETE, FAILED) and one.status == "True")
    finished = next((one.last_transition_time for one in ends), None)
    return None if finished is None else parse_time(finished) + timedelta(seconds=seconds)
