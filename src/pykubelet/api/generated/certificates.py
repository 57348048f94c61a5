"""Structs of the API group certificates; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping
from types import NoneType

from msgspec import Struct, field

from pykubelet.api.generated.meta import ObjectMeta


class CertificateSigningRequestSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CertificateSigningRequestSpec of certificates.v1."""

    expiration_seconds: int | None = None
    extra: Mapping[str, tuple[str, ...]] = {}
    groups: tuple[str, ...] = ()
    request: bytes | None = None
    signer_name: str = field(default_factory=str)
    uid: str = ""
    usages: tuple[str, ...] = ()
    username: str = ""


class CertificateSigningRequestCondition(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CertificateSigningRequestCondition of certificates.v1."""

    last_transition_time: str | None = field(default_factory=NoneType)
    last_update_time: str | None = field(default_factory=NoneType)
    message: str = ""
    reason: str = ""
    status: str = field(default_factory=str)
    type: str = field(default_factory=str)


class CertificateSigningRequestStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CertificateSigningRequestStatus of certificates.v1."""

    certificate: bytes | None = None
    conditions: tuple[CertificateSigningRequestCondition, ...] = ()


class CertificateSigningRequest(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """CertificateSigningRequest of certificates.v1."""

    api_version: str = field(default_factory=lambda: "certificates.k8s.io/v1")
    kind: str = field(default_factory=lambda: "CertificateSigningRequest")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: CertificateSigningRequestSpec = field(default_factory=CertificateSigningRequestSpec)
    status: CertificateSigningRequestStatus = field(default_factory=CertificateSigningRequestStatus)
