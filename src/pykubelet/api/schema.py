"""Names and fields of the API's kinds: group, version, plural and scope, and the schema of each field.

The API server works with these alone; clients pair a `Resource` with a Struct in `api/scheme.py`. Fields come from
`generated/schema.json`, read once. A kind that is not in it is either a custom resource, of which only the metadata is
known, or a mistake; `unknown_kind_reason` distinguishes the two.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/schema/group_version.go
"""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources

import msgspec

from pykubelet.aio.msgspec_types import register_type


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the API: what builds its URL and names it in messages."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresource: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`pods` or `replicasets.apps`, as error messages write it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Returns the URL path of the collection, an object or a subresource; parts must be valid names."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, name, subresource or self.subresource]
        return "/" + "/".join(part for part in parts if part)


PODS = Resource("", "v1", "pods", "Pod")
POD_BINDINGS = Resource("", "v1", "pods", "Binding", subresource="binding")
POD_EVICTIONS = Resource("", "v1", "pods", "Eviction", subresource="eviction")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("", "v1", "events", "Event")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SERVICE_ACCOUNT_TOKENS = Resource("", "v1", "serviceaccounts", "TokenRequest", subresource="token")
SERVICES = Resource("", "v1", "services", "Service")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
HORIZONTAL_POD_AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
SERVICE_CIDRS = Resource("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR", namespaced=False)
IP_ADDRESSES = Resource("networking.k8s.io", "v1", "ipaddresses", "IPAddress", namespaced=False)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
INGRESS_CLASSES = Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False)
VALIDATING_ADMISSION_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
NODE_METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", namespaced=False)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
MUTATING_WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


OBJECT_META = "meta.v1.ObjectMeta"
LIST_META = "meta.v1.ListMeta"

# Kinds of Kubernetes' own groups that this server does not store, so the table lacks their fields.
_UNLISTED_KINDS = (
    "CSIDriver CSINode CSIStorageCapacity ComponentStatus HorizontalPodAutoscaler IPAddress LeaseCandidate "
    "LocalSubjectAccessReview SelfSubjectReview ServiceCIDR VolumeAttachment VolumeAttributesClass"
)
# No misspelled field is longer than the longest field name; comparing costs the square of the length.
_LONGEST_NAME = 64


class Field(msgspec.Struct, frozen=True):
    """One field: its type, the definition it refers to, the items of a list or map, and how Go holds it.

    `shape` is `pointer` where zero differs from unset, `value` for an object or time that is always present, `always`
    for a field written even when empty; without a shape, an empty field is omitted. The remaining attributes say how
    elements of a list or map are matched in patches and apply.
    """

    type: str
    ref: str = ""
    items: "Field | None" = None
    shape: str = ""
    list_type: str = ""
    """`atomic`, `set`, `map` or `granular`; for maps too."""
    map_keys: tuple[str, ...] = ()
    key: str = ""
    strategy: tuple[str, ...] = ()


class Definition(msgspec.Struct, frozen=True, rename="camel"):
    """One type of the API; top-level types have a kind and an apiVersion."""

    fields: dict[str, Field]
    kind: str = ""
    api_version: str = ""


@cache
def definitions() -> dict[str, Definition]:
    """Returns every definition by name, such as `core.v1.Pod`."""
    data = resources.files("pykubelet.api.generated").joinpath("schema.json").read_bytes()
    found = msgspec.json.decode(data, type=register_type(dict[str, Definition]))
    # Structs do not have managedFields, so the generated table omits it; manifests written from live objects have it.
    found[OBJECT_META].fields["managedFields"] = Field("array", items=Field("any"))
    return found


@cache
def _by_kind() -> dict[tuple[str, str], str]:
    return {(known.api_version, known.kind): name for name, known in definitions().items() if known.kind}


def definition_of(api_version: str, kind: str) -> str | None:
    """Returns the definition name of a kind, or None if its fields are unknown."""
    return _by_kind().get((api_version, kind))


def unknown_kind_reason(api_version: str, kind: str) -> str | None:
    """Explains an unknown apiVersion and kind; None if it may be a custom resource."""
    versions = {version for version, _ in _by_kind()}
    group = _group(api_version)
    known_group = group in {_group(version) for version in versions}
    # Groups of custom resources are domain names.
    if (not known_group and "." in group) or (known_group and kind in _UNLISTED_KINDS.split()):
        return None
    elsewhere = sorted(version for version, known in _by_kind() if known == kind)
    if elsewhere:
        return f'no kind "{kind}" in "{api_version}" (did you mean "{elsewhere[0]}"?)'
    if api_version not in versions:
        return f'unknown apiVersion "{api_version}"{did_you_mean(api_version, versions)}'
    in_version = {known for version, known in _by_kind() if version == api_version}
    return f'unknown kind "{kind}" in "{api_version}"{did_you_mean(kind, in_version)}'


def did_you_mean(name: str, known: set[str] | dict[str, Field]) -> str:
    """Suggests the known name nearest to a wrong one; empty if none is near."""
    if len(name) > _LONGEST_NAME:
        return ""
    folded = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    nearest = get_close_matches(name.casefold(), folded, n=1)
    return f' (did you mean "{folded[nearest[0]]}"?)' if nearest else ""


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
