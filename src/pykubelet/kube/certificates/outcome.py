"""What became of a request for a certificate (pure).

Upstream: client-go/util/certificate/csr/csr.go (WaitForCertificate)
"""

from pykubelet.api.certificate_requests import APPROVED, DENIED, FAILED
from pykubelet.api.generated.certificates import CertificateSigningRequest


class RequestRefused(Exception):
    """There will be no certificate; the message says why."""


def issued_certificate(request: CertificateSigningRequest, uid: str) -> bytes | None:
    """The certificate as PEM; None while it is not decided or not signed, RequestRefused if it never will be."""
    name = request.metadata.name
    if request.metadata.uid != uid:
        raise RequestRefused(f"the certificate signing request {name} was deleted, and another made in its place")
    types = set()
    for condition in request.status.conditions:
        if condition.type in (DENIED, FAILED):
            what = "is denied" if condition.type == DENIED else "failed"
            why = f"reason: {condition.reason}, message: {condition.message}"
            raise RequestRefused(f"the certificate signing request {name} {what}, {why}")
        types.add(condition.type)
    return request.status.certificate or None if APPROVED in types else None
