"""An object of any kind, as far as every kind is alike: what the garbage collector knows of it.

Only the metadata that says what the object is, who owns it and what its deletion waits for. A client asks the server
for no more than metadata when it sees this type; a server that gives more is understood as well.

Upstream: PartialObjectMetadata in k8s.io/apimachinery/pkg/apis/meta/v1/types.go
"""

from msgspec import Struct, field

from pykubelet.api.generated.meta import OwnerReference
from pykubelet.api.resources import Resource
from pykubelet.api.typed import Kind


class PartialMeta(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """Some of an object's metadata."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None


class PartialObject(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """An object without its contents."""

    metadata: PartialMeta = field(default_factory=PartialMeta)


def metadata_of(resource: Resource) -> Kind[PartialObject]:
    """The resource's objects, of which only metadata matters."""
    return Kind(resource, PartialObject)
