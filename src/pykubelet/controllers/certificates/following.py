"""What controllers of certificate requests share: they hear of every request, and sync one by name."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from pykubelet.aio.backoff import Backoff
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.typed import CERTIFICATE_SIGNING_REQUESTS, Kind
from pykubelet.api.wire import Document, to_document
from pykubelet.controllers.informers import Informers
from pykubelet.controllers.object_index import ObjectIndex
from pykubelet.controllers.work_queue import RETRY, WorkQueue
from pykubelet.kube.client import PatchType

T = TypeVar("T")


class RequestClient(Protocol):
    """What is needed of an API server."""

    async def create(self, kind: Kind[T], body: T, *, namespace: str = "") -> T:
        """Create an object."""

    async def patch(
        self,
        kind: Kind[T],
        name: str,
        body: Any,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.STRATEGIC,
        subresource: str = "",
    ) -> T:
        """Change an object or its subresource."""

    async def delete(
        self, kind: Kind[T], name: str, *, namespace: str = "", options: DeleteOptions | None = None
    ) -> None:
        """Delete an object."""


class RequestQueue:
    """The requests that have changed, by name."""

    def __init__(self, requests: ObjectIndex[CertificateSigningRequest], *, retry: Backoff = RETRY) -> None:
        self._requests = requests
        self.work = WorkQueue(retry)

    def listen(self, informers: Informers) -> None:
        """Hear of every change."""
        informers.tell(
            CERTIFICATE_SIGNING_REQUESTS,
            added=self._changed,
            updated=lambda _old, new: self._changed(new),
            deleted=lambda _request: None,
        )

    def get(self, name: str) -> CertificateSigningRequest | None:
        """The request of this name, as last heard of."""
        return self._requests.get(f"/{name}")

    def _changed(self, request: CertificateSigningRequest) -> None:
        self.work.add(request.metadata.name)


def status_patch(request: CertificateSigningRequest, **fields: Any) -> Document:
    """A change of the status, good only for the request as it was seen."""
    metadata = request.metadata
    return {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version}, "status": fields}


def with_condition(request: CertificateSigningRequest, type: str, reason: str, message: str) -> Sequence[Document]:
    """The conditions, and one more that is true."""
    added = {"type": type, "status": "True", "reason": reason, "message": message}
    return [*(to_document(condition) for condition in request.status.conditions), added]
