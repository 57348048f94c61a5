"""The ReplicationController controller: the ReplicaSet controller with another kind.

Upstream: pkg/controller/replication/replication_controller.go, pkg/controller/replication/conversion.go
"""

from pykubelet.api.generated.core import ReplicationController
from pykubelet.api.scheme import REPLICATION_CONTROLLERS
from pykubelet.controllers.replicaset.replica_set import ReplicasController


class ReplicationManager(ReplicasController[ReplicationController]):
    """Keeps the number of pods of each ReplicationController."""

    kind = REPLICATION_CONTROLLERS
