"""Which kinds have a form of their own, and what has to be known to tell of them."""

from collections.abc import Callable

from pykubelet.cli.describe.any_kind import describe_any
from pykubelet.cli.describe.jobs import describe_cron_job, describe_job
from pykubelet.cli.describe.nodes import describe_node
from pykubelet.cli.describe.plain_kinds import (
    describe_config_map,
    describe_namespace,
    describe_secret,
    describe_service,
)
from pykubelet.cli.describe.pods import describe_pod
from pykubelet.cli.describe.subject import Subject
from pykubelet.cli.describe.tab_stops import aligned
from pykubelet.cli.describe.workloads import (
    describe_daemon_set,
    describe_deployment,
    describe_replica_set,
    describe_stateful_set,
)

_FORMS: dict[tuple[str, str], Callable[[Subject], str]] = {
    ("v1", "Pod"): describe_pod,
    ("v1", "Node"): describe_node,
    ("v1", "Service"): describe_service,
    ("v1", "ConfigMap"): describe_config_map,
    ("v1", "Secret"): describe_secret,
    ("v1", "Namespace"): describe_namespace,
    ("apps/v1", "Deployment"): describe_deployment,
    ("apps/v1", "ReplicaSet"): describe_replica_set,
    ("apps/v1", "StatefulSet"): describe_stateful_set,
    ("apps/v1", "DaemonSet"): describe_daemon_set,
    ("batch/v1", "Job"): describe_job,
    ("batch/v1", "CronJob"): describe_cron_job,
}


def description(subject: Subject) -> str:
    """All about an object, for people; nothing in it can move their cursor."""
    form = _FORMS.get((subject.object.get("apiVersion", ""), subject.object.get("kind", "")), describe_any)
    return aligned(form(subject)).replace("\x1b", "^[").replace("\r", "\\r")
