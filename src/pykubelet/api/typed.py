"""Which Struct a resource decodes into.

A `Kind` is what callers hand to a client: `await client.get(PODS, "web", namespace="default")` gives a `Pod`.
`as_documents(PODS.resource)` is the same resource undecoded.
"""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pykubelet.api import resources
from pykubelet.api.generated.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from pykubelet.api.generated.authentication import TokenRequest, TokenReview
from pykubelet.api.generated.authorization import SubjectAccessReview
from pykubelet.api.generated.batch import CronJob, Job
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.generated.coordination import Lease
from pykubelet.api.generated.core import (
    Binding,
    ConfigMap,
    Endpoints,
    Event,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodTemplate,
    Secret,
    Service,
    ServiceAccount,
)
from pykubelet.api.generated.discovery import EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.generated.node import RuntimeClass
from pykubelet.api.generated.policy import Eviction, PodDisruptionBudget
from pykubelet.api.generated.scheduling import PriorityClass
from pykubelet.api.resources import Resource
from pykubelet.api.wire import Document

T = TypeVar("T")


class ApiObject(Protocol):
    """Any Struct of a kind: it has a type and metadata."""

    @property
    def api_version(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A resource together with the type its objects decode into."""

    resource: Resource
    type: type[T]


def as_documents(resource: Resource) -> Kind[Document]:
    """The resource as plain documents: nothing dropped, nothing typed."""
    return Kind(resource, dict[str, Any])


PODS = Kind(resources.PODS, Pod)
POD_BINDINGS = Kind(resources.POD_BINDINGS, Binding)
POD_EVICTIONS = Kind(resources.POD_EVICTIONS, Eviction)
POD_TEMPLATES = Kind(resources.POD_TEMPLATES, PodTemplate)
NODES = Kind(resources.NODES, Node)
NAMESPACES = Kind(resources.NAMESPACES, Namespace)
SECRETS = Kind(resources.SECRETS, Secret)
CONFIG_MAPS = Kind(resources.CONFIG_MAPS, ConfigMap)
EVENTS = Kind(resources.EVENTS, Event)
SERVICE_ACCOUNTS = Kind(resources.SERVICE_ACCOUNTS, ServiceAccount)
SERVICE_ACCOUNT_TOKENS = Kind(resources.SERVICE_ACCOUNT_TOKENS, TokenRequest)
SERVICES = Kind(resources.SERVICES, Service)
ENDPOINTS = Kind(resources.ENDPOINTS, Endpoints)
PERSISTENT_VOLUME_CLAIMS = Kind(resources.PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim)
REPLICA_SETS = Kind(resources.REPLICA_SETS, ReplicaSet)
DEPLOYMENTS = Kind(resources.DEPLOYMENTS, Deployment)
DAEMON_SETS = Kind(resources.DAEMON_SETS, DaemonSet)
STATEFUL_SETS = Kind(resources.STATEFUL_SETS, StatefulSet)
CONTROLLER_REVISIONS = Kind(resources.CONTROLLER_REVISIONS, ControllerRevision)
JOBS = Kind(resources.JOBS, Job)
CRON_JOBS = Kind(resources.CRON_JOBS, CronJob)
POD_DISRUPTION_BUDGETS = Kind(resources.POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
ENDPOINT_SLICES = Kind(resources.ENDPOINT_SLICES, EndpointSlice)
CERTIFICATE_SIGNING_REQUESTS = Kind(resources.CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest)
LEASES = Kind(resources.LEASES, Lease)
PRIORITY_CLASSES = Kind(resources.PRIORITY_CLASSES, PriorityClass)
RUNTIME_CLASSES = Kind(resources.RUNTIME_CLASSES, RuntimeClass)
TOKEN_REVIEWS = Kind(resources.TOKEN_REVIEWS, TokenReview)
SUBJECT_ACCESS_REVIEWS = Kind(resources.SUBJECT_ACCESS_REVIEWS, SubjectAccessReview)
