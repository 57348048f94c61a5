"""The rules of the kinds of the group batch.

Upstream: pkg/registry/batch
"""

from pykubelet.apiserver.served import Strategy
from pykubelet.apiserver.strategies.cronjobs import CRON_JOBS
from pykubelet.apiserver.strategies.jobs import JOBS

STRATEGIES: dict[str, Strategy] = {"cronjobs.batch": CRON_JOBS, "jobs.batch": JOBS}
"""By group resource, such as `jobs.batch`."""
