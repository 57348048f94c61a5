"""Which function makes the cells of which kind.

Upstream: AddHandlers in pkg/printers/internalversion/printers.go
"""

from collections.abc import Callable
from typing import Any

from pykubelet.api.ages import Age
from pykubelet.api.wire import Document
from pykubelet.apiserver.tables import cluster_rows as cluster
from pykubelet.apiserver.tables import network_rows as network
from pykubelet.apiserver.tables import workload_rows as workloads
from pykubelet.apiserver.tables.autoscaler_row import autoscaler_cells
from pykubelet.apiserver.tables.certificate_row import certificate_request_cells
from pykubelet.apiserver.tables.pod_row import pod_cells

Cells = Callable[[Document, Age], list[Any]]

CELLS: dict[str, Cells] = {
    "componentstatuses": cluster.component_status_cells,
    "configmaps": cluster.config_map_cells,
    "endpoints": network.endpoints_cells,
    "events": cluster.event_cells,
    "namespaces": cluster.namespace_cells,
    "nodes": cluster.node_cells,
    "persistentvolumeclaims": cluster.claim_cells,
    "persistentvolumes": cluster.volume_cells,
    "pods": pod_cells,
    "podtemplates": workloads.pod_template_cells,
    "replicationcontrollers": workloads.replication_controller_cells,
    "resourcequotas": cluster.quota_cells,
    "secrets": cluster.secret_cells,
    "serviceaccounts": cluster.service_account_cells,
    "services": network.service_cells,
    "controllerrevisions.apps": workloads.controller_revision_cells,
    "daemonsets.apps": workloads.daemon_set_cells,
    "deployments.apps": workloads.deployment_cells,
    "replicasets.apps": workloads.replica_set_cells,
    "statefulsets.apps": workloads.stateful_set_cells,
    "horizontalpodautoscalers.autoscaling": autoscaler_cells,
    "cronjobs.batch": workloads.cron_job_cells,
    "jobs.batch": workloads.job_cells,
    "certificatesigningrequests.certificates.k8s.io": certificate_request_cells,
    "leases.coordination.k8s.io": cluster.lease_cells,
    "endpointslices.discovery.k8s.io": network.endpoint_slice_cells,
    "events.events.k8s.io": cluster.event_cells,
    "ingresses.networking.k8s.io": network.ingress_cells,
    "networkpolicies.networking.k8s.io": network.network_policy_cells,
    "runtimeclasses.node.k8s.io": cluster.runtime_class_cells,
    "poddisruptionbudgets.policy": workloads.disruption_budget_cells,
    "clusterrolebindings.rbac.authorization.k8s.io": cluster.role_binding_cells,
    "rolebindings.rbac.authorization.k8s.io": cluster.role_binding_cells,
    "priorityclasses.scheduling.k8s.io": cluster.priority_class_cells,
    "storageclasses.storage.k8s.io": cluster.storage_class_cells,
    "scale": workloads.scale_cells,
}
"""By group resource; `scale` is the scale subresource. Kinds that are not here show their name and when they were created."""
