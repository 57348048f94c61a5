"""The approver: whom it asks about, whom it approves, and what it writes."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from certificates import a_request
from pykubelet.api.generated.authorization import SubjectAccessReview, SubjectAccessReviewStatus
from pykubelet.api.generated.certificates import CertificateSigningRequest
from pykubelet.api.schema import CERTIFICATE_SIGNING_REQUESTS
from pykubelet.api.scheme import TypedKind
from pykubelet.client.indexer import ObjectIndex
from pykubelet.client.interface import Client, PatchType
from pykubelet.controllers.certificates.approver import CertificateApprover, NotPermitted


class ReviewServer:
    """An API server that grants some permissions and records patches. Implements Creator and Patcher."""

    def __init__(self, *granted: str) -> None:
        self._granted = granted
        self.reviewed: list[str] = []
        self.patches: list[Any] = []

    async def create(self, _kind: TypedKind[Any], body: SubjectAccessReview, **_: Any) -> SubjectAccessReview:
        asked = body.spec.resource_attributes
        assert asked is not None
        self.reviewed.append(asked.subresource)
        return SubjectAccessReview(status=SubjectAccessReviewStatus(allowed=asked.subresource in self._granted))

    async def patch(self, kind: TypedKind[Any], name: str, patch: Any, **options: Any) -> None:
        assert kind.resource == CERTIFICATE_SIGNING_REQUESTS
        self.patches.append((name, patch, options))


def asked_by(user: str) -> CertificateSigningRequest:
    request = a_request()
    metadata = replace(request.metadata, uid="u", resource_version="7")
    return replace(request, metadata=metadata, spec=replace(request.spec, username=user))


async def approve(server: ReviewServer, *requests: CertificateSigningRequest) -> None:
    index = ObjectIndex(requests)
    await CertificateApprover(client=cast("Client", server), requests=index).sync("csr-1")


@pytest.mark.parametrize(
    ("user", "granted", "reviewed", "word"),
    [
        ("system:node:n1", ("selfnodeclient",), ["selfnodeclient"], "self kubelet"),
        ("system:node:n1", ("nodeclient",), ["selfnodeclient", "nodeclient"], "kubelet"),
        ("system:bootstrap:abcdef", ("nodeclient",), ["nodeclient"], "kubelet"),
    ],
)
async def test_request_is_approved_once_one_review_allows_it(
    user: str, granted: tuple[str, ...], reviewed: list[str], word: str
) -> None:
    server = ReviewServer(*granted)
    await approve(server, asked_by(user))
    assert server.reviewed == reviewed
    message = f"Auto approving {word} client certificate after SubjectAccessReview."
    condition = {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message}
    patch = {"metadata": {"uid": "u", "resourceVersion": "7"}, "status": {"conditions": [condition]}}
    assert server.patches == [("csr-1", patch, {"patch_type": PatchType.MERGE, "subresource": "approval"})]


async def test_request_waits_while_no_review_allows_it() -> None:
    """Permissions may be granted later."""
    server = ReviewServer()
    with pytest.raises(NotPermitted, match=r"recognized csr csr-1 as \[selfnodeclient nodeclient\] but subject access"):
        await approve(server, asked_by("system:node:n1"))
    assert server.patches == []


async def test_no_review_is_made_for_a_request_that_is_gone_or_decided() -> None:
    server = ReviewServer("selfnodeclient", "nodeclient")
    await approve(server)
    await approve(server, a_request("Approved"))
    await approve(server, a_request("Denied"))
    assert (server.reviewed, server.patches) == ([], [])
