"""The rules of the kinds of the group apps.

Upstream: pkg/registry/apps
"""

from pykubelet.apiserver.served import Strategy
from pykubelet.apiserver.strategies.controllerrevisions import CONTROLLER_REVISIONS
from pykubelet.apiserver.strategies.daemonsets import DAEMON_SETS
from pykubelet.apiserver.strategies.deployments import DEPLOYMENTS
from pykubelet.apiserver.strategies.replicasets import REPLICA_SETS
from pykubelet.apiserver.strategies.statefulsets import STATEFUL_SETS

STRATEGIES: dict[str, Strategy] = {
    "controllerrevisions.apps": CONTROLLER_REVISIONS,
    "daemonsets.apps": DAEMON_SETS,
    "deployments.apps": DEPLOYMENTS,
    "replicasets.apps": REPLICA_SETS,
    "statefulsets.apps": STATEFUL_SETS,
}
"""By group resource, such as `replicasets.apps`."""
