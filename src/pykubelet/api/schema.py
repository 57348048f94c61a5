"""The fields of every built-in kind: what strict reading may expect.

In: an apiVersion and kind, or the name of a definition. Out: its fields and their types, from `generated/schema.json`,
which is read once. Kinds that are not in it are either custom resources, of which only the metadata is known, or
mistakes; `kind_mistake` tells which.

Names of the API's resources: group, version, kind, plural, scope. No types.

The server works with these alone; clients pair them with a Struct in `api/scheme.py`.

Quantities of a document in the form in which they are kept and shown.

In: text or a number, as people write them. Out: the canonical text; no resource is finer than a thousandth.

Upstream: SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go
"""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources

import msgspec

from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.quantity import Quantity, parse_quantity, quantity_from_json
from pykubelet.api.serializer import Document

_MILLI = -3


# Few different quantities stand in many objects.
@lru_cache(maxsize=4096, typed=True)
def canonical_quantity(value: str | float) -> str:
    """The same quantity in canonical form; QuantityError if it is none."""
    return str(_read(value))


def canonical_resource_list(resources: Document) -> Document:
    """The quantities in canonical form, rounded up to thousandths; QuantityError if one is none."""
    return {name: _canonical_amount(value) for name, value in resources.items()}


@lru_cache(maxsize=4096, typed=True)
def _canonical_amount(value: str | float) -> str:
    return str(_rounded_up(_read(value)))


def _read(value: str | float) -> Quantity:
    return parse_quantity(value.strip()) if isinstance(value, str) else quantity_from_json(json.dumps(value))


def _rounded_up(quantity: Quantity) -> Quantity:
    if quantity.scale >= _MILLI:
        return quantity
    size = -(-abs(quantity.unscaled) // 10 ** (_MILLI - quantity.scale))
    return Quantity(size if quantity.unscaled > 0 else -size, _MILLI, quantity.format)


@dataclass(frozen=True, slots=True)
class Resource:
    """What a URL needs to know of a kind."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """`pods` or `replicasets.apps`, as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The URL path of the collection, an object or a subresource; the parts must be valid Kubernetes names."""
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
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
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
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)


OBJECT_META = "meta.v1.ObjectMeta"
LIST_META = "meta.v1.ListMeta"

# Kinds of Kubernetes' own groups that nobody here stores and whose fields are therefore not in the table.
_UNLISTED_KINDS = frozenset(
    {
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "ComponentStatus",
        "HorizontalPodAutoscaler",
        "IPAddress",
        "IngressClass",
        "LeaseCandidate",
        "LocalSubjectAccessReview",
        "SelfSubjectReview",
        "ServiceCIDR",
        "VolumeAttachment",
        "VolumeAttributesClass",
    }
)
# Nobody misspells a field in more letters than the longest of them has; comparing costs the square of the length.
_LONGEST_NAME = 64


class Field(msgspec.Struct, frozen=True):
    """One field: its type, the definition it refers to, for lists and maps what they hold, and how Go holds it.

    `shape` is `pointer` where a zero differs from nothing, `value` for an object or a time that is always there,
    `always` for what is written even when empty; without a shape, what is empty is left out. The rest says how the
    parts of a list or map are told apart when it is patched or applied.
    """

    type: str
    ref: str = ""
    items: "Field | None" = None
    shape: str = ""
    list_type: str = ""
    """`atomic`, `set`, `map` or `granular`, for maps as well."""
    map_keys: tuple[str, ...] = ()
    key: str = ""
    strategy: tuple[str, ...] = ()


class Definition(msgspec.Struct, frozen=True, rename="camel"):
    """One type of the API; the top ones have a kind and an apiVersion."""

    fields: dict[str, Field]
    kind: str = ""
    api_version: str = ""


@cache
def definitions() -> dict[str, Definition]:
    """Every definition by its name, such as `core.v1.Pod`."""
    data = resources.files("pykubelet.api.generated").joinpath("schema.json").read_bytes()
    found = msgspec.json.decode(data, type=register_type(dict[str, Definition]))
    # No Struct carries it, so the generated table leaves it out; manifests written from a live object have it.
    found[OBJECT_META].fields["managedFields"] = Field("array", items=Field("any"))
    return found


@cache
def _by_kind() -> dict[tuple[str, str], str]:
    return {(known.api_version, known.kind): name for name, known in definitions().items() if known.kind}


def definition_of(api_version: str, kind: str) -> str | None:
    """The name of the definition of a kind, or None if its fields are not known."""
    return _by_kind().get((api_version, kind))


def kind_mistake(api_version: str, kind: str) -> str | None:
    """What is wrong with an apiVersion and kind whose fields are not known; None for a custom resource."""
    versions = {version for version, _ in _by_kind()}
    group = _group(api_version)
    known_group = group in {_group(version) for version in versions}
    # The groups of custom resources are domain names.
    if (not known_group and "." in group) or (known_group and kind in _UNLISTED_KINDS):
        return None
    elsewhere = sorted(version for version, known in _by_kind() if known == kind)
    if elsewhere:
        return f'no kind "{kind}" in "{api_version}" (did you mean "{elsewhere[0]}"?)'
    if api_version not in versions:
        return f'unknown apiVersion "{api_version}"{did_you_mean(api_version, versions)}'
    in_version = {known for version, known in _by_kind() if version == api_version}
    return f'unknown kind "{kind}" in "{api_version}"{did_you_mean(kind, in_version)}'


def did_you_mean(name: str, known: set[str] | dict[str, Field]) -> str:
    """A hint at the known name that is nearest to a wrong one, or nothing."""
    if len(name) > _LONGEST_NAME:
        return ""
    folded = {candidate.casefold(): candidate for candidate in sorted(known, reverse=True)}
    nearest = get_close_matches(name.casefold(), folded, n=1)
    return f' (did you mean "{folded[nearest[0]]}"?)' if nearest else ""


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
