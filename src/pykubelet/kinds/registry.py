"""The table of built-in kinds: names as discovery shows them, and the rules of each.

Out: `KINDS`. Custom resources make rows of the same form while the server runs.

Upstream: pkg/registry, where each resource's storage states its names, and the generated types' scopes

Which function makes the cells of which kind.

Upstream: AddHandlers in pkg/printers/internalversion/printers.go

The rules of the kinds of the smaller groups: policy, RBAC, networking and more.

Upstream: pkg/registry

The rules of the kinds of the group without a name, of leases, certificates, and all events.

The rules of the kinds of the group batch.

Upstream: pkg/registry/batch

The rules of the kinds of the group apps.

Upstream: pkg/registry/apps
"""

from collections.abc import Callable
from typing import Any

from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.apiserver.apiextensions import customresourcedefinition
from pykubelet.kinds import cluster_rows as cluster
from pykubelet.kinds import (
    endpoint_slice,
    horizontal_pod_autoscaler,
    ingress,
    network_policy,
    pod_disruption_budget,
    priority_class,
    role,
    runtime_class,
    storage_class,
)
from pykubelet.kinds import network_rows as network
from pykubelet.kinds import workload_rows as workloads
from pykubelet.kinds.certificate_signing_request import APPROVAL, CERTIFICATE_REQUESTS, certificate_request_cells
from pykubelet.kinds.config_map import CONFIG_MAPS, SECRETS
from pykubelet.kinds.controller_revision import CONTROLLER_REVISIONS
from pykubelet.kinds.cron_job import CRON_JOBS
from pykubelet.kinds.daemon_set import DAEMON_SETS
from pykubelet.kinds.deployment import DEPLOYMENTS
from pykubelet.kinds.endpoints import ENDPOINTS
from pykubelet.kinds.event import EVENTS, NEW_EVENTS
from pykubelet.kinds.horizontal_pod_autoscaler import autoscaler_cells
from pykubelet.kinds.job.strategy import JOBS
from pykubelet.kinds.kind import ALL_VERBS, Kind, Strategy
from pykubelet.kinds.lease import LEASES
from pykubelet.kinds.limit_range import LIMIT_RANGES
from pykubelet.kinds.namespace import FINALIZE, NAMESPACES
from pykubelet.kinds.node import NODES
from pykubelet.kinds.persistent_volume import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pykubelet.kinds.pod.columns import pod_cells
from pykubelet.kinds.pod.strategy import EPHEMERAL_CONTAINERS, PODS, RESIZE
from pykubelet.kinds.replica_set import REPLICA_SETS
from pykubelet.kinds.replication_controller import POD_TEMPLATES, REPLICATION_CONTROLLERS
from pykubelet.kinds.resource_quota import RESOURCE_QUOTAS
from pykubelet.kinds.service.strategy import SERVICES
from pykubelet.kinds.service_account import SERVICE_ACCOUNTS
from pykubelet.kinds.stateful_set import STATEFUL_SETS

APPS_STRATEGIES: dict[str, Strategy] = {
    "controllerrevisions.apps": CONTROLLER_REVISIONS,
    "daemonsets.apps": DAEMON_SETS,
    "deployments.apps": DEPLOYMENTS,
    "replicasets.apps": REPLICA_SETS,
    "statefulsets.apps": STATEFUL_SETS,
}
"""By group resource, such as `replicasets.apps`."""


BATCH_STRATEGIES: dict[str, Strategy] = {"cronjobs.batch": CRON_JOBS, "jobs.batch": JOBS}
"""By group resource, such as `jobs.batch`."""


CORE_STRATEGIES: dict[str, Strategy] = {
    "certificatesigningrequests.certificates.k8s.io": CERTIFICATE_REQUESTS,
    "configmaps": CONFIG_MAPS,
    "endpoints": ENDPOINTS,
    "events": EVENTS,
    "events.events.k8s.io": NEW_EVENTS,
    "leases.coordination.k8s.io": LEASES,
    "limitranges": LIMIT_RANGES,
    "namespaces": NAMESPACES,
    "nodes": NODES,
    "persistentvolumeclaims": PERSISTENT_VOLUME_CLAIMS,
    "persistentvolumes": PERSISTENT_VOLUMES,
    "pods": PODS,
    "podtemplates": POD_TEMPLATES,
    "replicationcontrollers": REPLICATION_CONTROLLERS,
    "resourcequotas": RESOURCE_QUOTAS,
    "secrets": SECRETS,
    "serviceaccounts": SERVICE_ACCOUNTS,
    "services": SERVICES,
}
"""By group resource, such as `pods` or `leases.coordination.k8s.io`."""

SUBRESOURCES: dict[tuple[str, str], Strategy] = {
    ("certificatesigningrequests.certificates.k8s.io", "approval"): APPROVAL,
    ("namespaces", "finalize"): FINALIZE,
    ("pods", "ephemeralcontainers"): EPHEMERAL_CONTAINERS,
    ("pods", "resize"): RESIZE,
}
"""The rules of subresources through which an object itself is updated; their `update` rules apply."""


OTHER_STRATEGIES: dict[str, Strategy] = {
    **role.STRATEGIES,
    **horizontal_pod_autoscaler.STRATEGIES,
    **endpoint_slice.STRATEGIES,
    **ingress.STRATEGIES,
    **network_policy.STRATEGIES,
    **pod_disruption_budget.STRATEGIES,
    **runtime_class.STRATEGIES,
    **priority_class.STRATEGIES,
    **storage_class.STRATEGIES,
}
"""By group resource, such as `roles.rbac.authorization.k8s.io`."""


_STRATEGIES: dict[str, Strategy] = {
    **CORE_STRATEGIES,
    **APPS_STRATEGIES,
    **BATCH_STRATEGIES,
    **OTHER_STRATEGIES,
    **customresourcedefinition.STRATEGIES,
}
_DEPRECATED = {
    "core.v1.ComponentStatus": ("v1 ComponentStatus is deprecated in v1.19+",),
    "core.v1.Endpoints": ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",),
}
# They change all the time, and nobody goes back to what they were.
_FLEETING = frozenset({"events", "leases"})
_CREATE = ("create",)
_ALL = ("all",)


def _served(
    definition: str,
    plural: str,
    group: str = "",
    *,
    short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    sub: tuple[str, ...] = (),
    cluster: bool = False,
) -> Kind:
    """A row; version and kind are those of the definition, and the singular is the kind in small letters."""
    _, version, kind = definition.split(".")
    resource = Resource(group, version, plural, kind, namespaced=not cluster)
    return Kind(
        resource=resource,
        singular=kind.lower(),
        short_names=short,
        categories=categories,
        verbs=verbs,
        subresources=sub,
        definition=definition,
        strategy=_STRATEGIES.get(resource.group_resource, Strategy()),
        warnings=_DEPRECATED.get(definition, ()),
        keeps_history=plural not in _FLEETING,
    )


_POD_SUBRESOURCES = (
    "attach",
    "binding",
    "ephemeralcontainers",
    "eviction",
    "exec",
    "log",
    "portforward",
    "proxy",
    "resize",
    "status",
)
_WITHOUT_DELETECOLLECTION = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
_STATUS = ("status",)
_SCALE = ("scale", "status")

_LEGACY: tuple[Kind, ...] = (
    _served("core.v1.Binding", "bindings", verbs=_CREATE),
    _served("core.v1.ComponentStatus", "componentstatuses", short=("cs",), verbs=("get", "list"), cluster=True),
    _served("core.v1.ConfigMap", "configmaps", short=("cm",)),
    _served("core.v1.Endpoints", "endpoints", short=("ep",)),
    _served("core.v1.Event", "events", short=("ev",)),
    _served("core.v1.LimitRange", "limitranges", short=("limits",)),
    _served(
        "core.v1.Namespace",
        "namespaces",
        short=("ns",),
        verbs=_WITHOUT_DELETECOLLECTION,
        sub=("finalize", "status"),
        cluster=True,
    ),
    _served("core.v1.Node", "nodes", short=("no",), sub=("proxy", "status"), cluster=True),
    _served("core.v1.PersistentVolumeClaim", "persistentvolumeclaims", short=("pvc",), sub=_STATUS),
    _served("core.v1.PersistentVolume", "persistentvolumes", short=("pv",), sub=_STATUS, cluster=True),
    _served("core.v1.Pod", "pods", short=("po",), categories=_ALL, sub=_POD_SUBRESOURCES),
    _served("core.v1.PodTemplate", "podtemplates"),
    _served("core.v1.ReplicationController", "replicationcontrollers", short=("rc",), categories=_ALL, sub=_SCALE),
    _served("core.v1.ResourceQuota", "resourcequotas", short=("quota",), sub=_STATUS),
    _served("core.v1.Secret", "secrets"),
    _served("core.v1.ServiceAccount", "serviceaccounts", short=("sa",), sub=("token",)),
    _served("core.v1.Service", "services", short=("svc",), categories=_ALL, sub=("proxy", "status")),
)

_WORKLOADS: tuple[Kind, ...] = (
    _served("apps.v1.ControllerRevision", "controllerrevisions", "apps"),
    _served("apps.v1.DaemonSet", "daemonsets", "apps", short=("ds",), categories=_ALL, sub=_STATUS),
    _served("apps.v1.Deployment", "deployments", "apps", short=("deploy",), categories=_ALL, sub=_SCALE),
    _served("apps.v1.ReplicaSet", "replicasets", "apps", short=("rs",), categories=_ALL, sub=_SCALE),
    _served("apps.v1.StatefulSet", "statefulsets", "apps", short=("sts",), categories=_ALL, sub=_SCALE),
    _served("batch.v1.CronJob", "cronjobs", "batch", short=("cj",), categories=_ALL, sub=_STATUS),
    _served("batch.v1.Job", "jobs", "batch", categories=_ALL, sub=_STATUS),
    _served(
        "autoscaling.v2.HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "autoscaling",
        short=("hpa",),
        categories=_ALL,
        sub=_STATUS,
    ),
    _served("policy.v1.PodDisruptionBudget", "poddisruptionbudgets", "policy", short=("pdb",), sub=_STATUS),
)

_CLUSTER: tuple[Kind, ...] = (
    _served(
        "certificates.v1.CertificateSigningRequest",
        "certificatesigningrequests",
        "certificates.k8s.io",
        short=("csr",),
        sub=("approval", "status"),
        cluster=True,
    ),
    _served("coordination.v1.Lease", "leases", "coordination.k8s.io"),
    _served("discovery.v1.EndpointSlice", "endpointslices", "discovery.k8s.io"),
    _served("events.v1.Event", "events", "events.k8s.io", short=("ev",)),
    _served("networking.v1.Ingress", "ingresses", "networking.k8s.io", short=("ing",), sub=_STATUS),
    _served("networking.v1.NetworkPolicy", "networkpolicies", "networking.k8s.io", short=("netpol",)),
    _served("node.v1.RuntimeClass", "runtimeclasses", "node.k8s.io", cluster=True),
    _served("scheduling.v1.PriorityClass", "priorityclasses", "scheduling.k8s.io", short=("pc",), cluster=True),
    _served("storage.v1.StorageClass", "storageclasses", "storage.k8s.io", short=("sc",), cluster=True),
    _served(
        "apiextensions.v1.CustomResourceDefinition",
        "customresourcedefinitions",
        "apiextensions.k8s.io",
        short=("crd", "crds"),
        categories=("api-extensions",),
        sub=_STATUS,
        cluster=True,
    ),
)

_RBAC = "rbac.authorization.k8s.io"
_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
_ACCESS: tuple[Kind, ...] = (
    _served("rbac.v1.ClusterRoleBinding", "clusterrolebindings", _RBAC, cluster=True),
    _served("rbac.v1.ClusterRole", "clusterroles", _RBAC, cluster=True),
    _served("rbac.v1.RoleBinding", "rolebindings", _RBAC),
    _served("rbac.v1.Role", "roles", _RBAC),
    *(
        _served(f"authentication.v1.{kind}", f"{kind.lower()}s", _AUTHENTICATION, verbs=_CREATE, cluster=True)
        for kind in ("SelfSubjectReview", "TokenReview")
    ),
    *(
        _served(
            f"authorization.v1.{kind}",
            f"{kind.lower()}s",
            _AUTHORIZATION,
            verbs=_CREATE,
            cluster=kind != "LocalSubjectAccessReview",
        )
        for kind in (
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        )
    ),
)

KINDS: tuple[Kind, ...] = (*_LEGACY, *_WORKLOADS, *_CLUSTER, *_ACCESS)
"""Every built-in resource; those of one group stand in the order in which discovery lists them."""


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
