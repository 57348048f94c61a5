"""Pairs each resource with the Struct its objects decode into.

Clients take a `TypedKind`: `await client.get(PODS, "web", namespace="default")` returns a `Pod`.
`as_documents(PODS.resource)` is the same resource undecoded; `metadata_of` asks the server for metadata only, which
suits the garbage collector.

Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/scheme.go,
staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go
"""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from pykubelet.api import schema
from pykubelet.api.generated import core
from pykubelet.api.generated.admissionregistration import ValidatingAdmissionPolicy
from pykubelet.api.generated.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from pykubelet.api.generated.authentication import TokenRequest, TokenReview
from pykubelet.api.generated.authorization import SubjectAccessReview
from pykubelet.api.generated.autoscaling import HorizontalPodAutoscaler
from pykubelet.api.generated.batch import CronJob, Job
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.generated.coordination import Lease
from pykubelet.api.generated.discovery import EndpointSlice
from pykubelet.api.generated.meta import ObjectMeta, OwnerReference
from pykubelet.api.generated.networking import Ingress, IngressClass, IPAddress, ServiceCIDR
from pykubelet.api.generated.node import RuntimeClass
from pykubelet.api.generated.policy import Eviction, PodDisruptionBudget
from pykubelet.api.generated.scheduling import PriorityClass
from pykubelet.api.generated.storage import StorageClass
from pykubelet.api.schema import Resource
from pykubelet.api.serializer import Document

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
class TypedKind(Generic[T]):
    """A resource and the type its objects decode into."""

    resource: Resource
    type: type[T]


def as_documents(resource: Resource) -> TypedKind[Document]:
    """Returns the resource with plain documents as objects: all fields kept, none typed."""
    return TypedKind(resource, dict[str, Any])


PODS = TypedKind(schema.PODS, core.Pod)
POD_BINDINGS = TypedKind(schema.POD_BINDINGS, core.Binding)
POD_EVICTIONS = TypedKind(schema.POD_EVICTIONS, Eviction)
POD_TEMPLATES = TypedKind(schema.POD_TEMPLATES, core.PodTemplate)
NODES = TypedKind(schema.NODES, core.Node)
NAMESPACES = TypedKind(schema.NAMESPACES, core.Namespace)
SECRETS = TypedKind(schema.SECRETS, core.Secret)
CONFIG_MAPS = TypedKind(schema.CONFIG_MAPS, core.ConfigMap)
EVENTS = TypedKind(schema.EVENTS, core.Event)
SERVICE_ACCOUNTS = TypedKind(schema.SERVICE_ACCOUNTS, core.ServiceAccount)
SERVICE_ACCOUNT_TOKENS = TypedKind(schema.SERVICE_ACCOUNT_TOKENS, TokenRequest)
SERVICES = TypedKind(schema.SERVICES, core.Service)
ENDPOINTS = TypedKind(schema.ENDPOINTS, core.Endpoints)
PERSISTENT_VOLUMES = TypedKind(schema.PERSISTENT_VOLUMES, core.PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = TypedKind(schema.PERSISTENT_VOLUME_CLAIMS, core.PersistentVolumeClaim)
REPLICATION_CONTROLLERS = TypedKind(schema.REPLICATION_CONTROLLERS, core.ReplicationController)
REPLICA_SETS = TypedKind(schema.REPLICA_SETS, ReplicaSet)
DEPLOYMENTS = TypedKind(schema.DEPLOYMENTS, Deployment)
DAEMON_SETS = TypedKind(schema.DAEMON_SETS, DaemonSet)
STATEFUL_SETS = TypedKind(schema.STATEFUL_SETS, StatefulSet)
CONTROLLER_REVISIONS = TypedKind(schema.CONTROLLER_REVISIONS, ControllerRevision)
JOBS = TypedKind(schema.JOBS, Job)
CRON_JOBS = TypedKind(schema.CRON_JOBS, CronJob)
HORIZONTAL_POD_AUTOSCALERS = TypedKind(schema.HORIZONTAL_POD_AUTOSCALERS, HorizontalPodAutoscaler)
POD_DISRUPTION_BUDGETS = TypedKind(schema.POD_DISRUPTION_BUDGETS, PodDisruptionBudget)
ENDPOINT_SLICES = TypedKind(schema.ENDPOINT_SLICES, EndpointSlice)
CERTIFICATE_SIGNING_REQUESTS = TypedKind(schema.CERTIFICATE_SIGNING_REQUESTS, CertificateSigningRequest)
LEASES = TypedKind(schema.LEASES, Lease)
INGRESSES = TypedKind(schema.INGRESSES, Ingress)
SERVICE_CIDRS = TypedKind(schema.SERVICE_CIDRS, ServiceCIDR)
IP_ADDRESSES = TypedKind(schema.IP_ADDRESSES, IPAddress)
INGRESS_CLASSES = TypedKind(schema.INGRESS_CLASSES, IngressClass)
PRIORITY_CLASSES = TypedKind(schema.PRIORITY_CLASSES, PriorityClass)
RUNTIME_CLASSES = TypedKind(schema.RUNTIME_CLASSES, RuntimeClass)
VALIDATING_ADMISSION_POLICIES = TypedKind(schema.VALIDATING_ADMISSION_POLICIES, ValidatingAdmissionPolicy)
STORAGE_CLASSES = TypedKind(schema.STORAGE_CLASSES, StorageClass)
TOKEN_REVIEWS = TypedKind(schema.TOKEN_REVIEWS, TokenReview)
SUBJECT_ACCESS_REVIEWS = TypedKind(schema.SUBJECT_ACCESS_REVIEWS, SubjectAccessReview)


class PartialMeta(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """The metadata that every object has: identity, owners and finalizers."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None


class PartialObjectMetadata(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """An object reduced to its metadata."""

    metadata: PartialMeta = field(default_factory=PartialMeta)


def metadata_of(resource: Resource) -> TypedKind[PartialObjectMetadata]:
    return TypedKind(resource, PartialObjectMetadata)
