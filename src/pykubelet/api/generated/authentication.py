"""Structs of the API group authentication; written by tools/generate_api.py, not by hand."""

from collections.abc import Mapping
from types import NoneType

from msgspec import Struct, field

from pykubelet.api.serializer import redacted
from pykubelet.api.generated.meta import ObjectMeta


class BoundObjectReference(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """BoundObjectReference of authentication.v1."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TokenRequestSpec of authentication.v1."""

    audiences: tuple[str, ...] = ()
    bound_object_ref: BoundObjectReference | None = None
    expiration_seconds: int | None = None


class TokenRequestStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TokenRequestStatus of authentication.v1."""

    expiration_timestamp: str | None = field(default_factory=NoneType)
    token: str = field(default_factory=str)

    def __repr__(self) -> str:
        return redacted(self, "token")


class TokenRequest(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TokenRequest of authentication.v1."""

    api_version: str = field(default_factory=lambda: "authentication.k8s.io/v1")
    kind: str = field(default_factory=lambda: "TokenRequest")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: TokenRequestSpec = field(default_factory=TokenRequestSpec)
    status: TokenRequestStatus = field(default_factory=TokenRequestStatus)


class TokenReviewSpec(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TokenReviewSpec of authentication.v1."""

    audiences: tuple[str, ...] = ()
    token: str = ""

    def __repr__(self) -> str:
        return redacted(self, "token")


class UserInfo(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """UserInfo of authentication.v1."""

    extra: Mapping[str, tuple[str, ...]] = {}
    groups: tuple[str, ...] = ()
    uid: str = ""
    username: str = ""


class TokenReviewStatus(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TokenReviewStatus of authentication.v1."""

    audiences: tuple[str, ...] = ()
    authenticated: bool = False
    error: str = ""
    user: UserInfo = field(default_factory=UserInfo)


class TokenReview(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True, rename="camel"):
    """TokenReview of authentication.v1."""

    api_version: str = field(default_factory=lambda: "authentication.k8s.io/v1")
    kind: str = field(default_factory=lambda: "TokenReview")
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: TokenReviewSpec = field(default_factory=TokenReviewSpec)
    status: TokenReviewStatus = field(default_factory=TokenReviewStatus)
