"""The table of built-in kinds: names as discovery shows them, and the rules of each.

Out: `KINDS`. Custom resources make rows of the same form while the server runs.

Upstream: pkg/registry, where each resource's storage states its names, and the generated types' scopes
"""

from pykubelet.api.resources import Resource
from pykubelet.apiserver.custom import definitions
from pykubelet.apiserver.served import ALL_VERBS, Served, Strategy
from pykubelet.apiserver.strategies import apps, batch, grouped, others

_STRATEGIES: dict[str, Strategy] = {
    **grouped.STRATEGIES,
    **apps.STRATEGIES,
    **batch.STRATEGIES,
    **others.STRATEGIES,
    **definitions.STRATEGIES,
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
) -> Served:
    """A row; version and kind are those of the definition, and the singular is the kind in small letters."""
    _, version, kind = definition.split(".")
    resource = Resource(group, version, plural, kind, namespaced=not cluster)
    return Served(
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

_LEGACY: tuple[Served, ...] = (
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

_WORKLOADS: tuple[Served, ...] = (
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

_CLUSTER: tuple[Served, ...] = (
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
_ACCESS: tuple[Served, ...] = (
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

KINDS: tuple[Served, ...] = (*_LEGACY, *_WORKLOADS, *_CLUSTER, *_ACCESS)
"""Every built-in resource; those of one group stand in the order in which discovery lists them."""
