"""Authenticates requests by client certificate or by static, service account or bootstrap token.

Each certificate and token is verified once and then cached, so a request costs a digest of its token or a dict lookup.

Upstream: pkg/kubeapiserver/authenticator/config.go,
staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go,
staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go,
plugin/pkg/auth/authenticator/token/bootstrap/bootstrap.go
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import sha256

from cryptography import x509
from cryptography.x509.oid import NameOID

from pykubelet.aio.clock import Clock
from pykubelet.api.errors import Unauthorized
from pykubelet.api.serializer import Document
from pykubelet.apiserver.authentication.serviceaccount import ServiceAccountTokens, TokenError
from pykubelet.apiserver.authentication.tokenfile import digest
from pykubelet.apiserver.request import ANONYMOUS, CREDENTIAL_ID, UserInfo, authenticated
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.bootstrap_token import (
    SECRET_TYPE,
    BootstrapToken,
    TokenFormatError,
    extra_groups,
    has_expired,
    token_data,
)

INVALID_TOKEN = "invalid bearer token"  # noqa: S105  a message
# The user, its groups, and the attribute that Kubernetes uses for its uid.
_SUBJECT = (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME, x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"))


@dataclass(frozen=True, slots=True)
class _Certificate:
    """The result of verifying a certificate, valid until a time: a user, anonymous (None), or rejected."""

    user: UserInfo | None
    expires_at: float
    is_proof: bool = True


class Authenticator:
    """Authenticates requests. `static` has the users of the token file by the digest of their tokens."""

    def __init__(
        self,
        tokens: ServiceAccountTokens,
        *,
        clock: Clock,
        static: Mapping[bytes, UserInfo] | None = None,
        newest: Callable[[StoreKey], StoreEntry | None] = lambda _key: None,
    ) -> None:
        """`newest` returns the newest entry of a key, for the secrets of bootstrap tokens."""
        self._tokens, self._clock, self._newest = tokens, clock, newest
        self._static = {key: authenticated(user) for key, user in (static or {}).items()}

    def authenticate(self, headers: Mapping[str, str], certificate: bytes | None) -> UserInfo:
        """The user of the certificate (DER, verified by TLS), else of the headers; Unauthorized if the token is invalid."""
        refused = False
        if certificate is not None:
            shown = _read_certificate(certificate)
            # A connection may outlive the certificate that it was opened with.
            refused = not shown.is_proof or self._clock.now().timestamp() > shown.expires_at
            if shown.user is not None and not refused:
                return shown.user
        if token := bearer_token(headers.get("Authorization", "")):
            return self.token_user(token)
        if refused:
            raise Unauthorized
        return ANONYMOUS

    def token_user(self, token: str) -> UserInfo:
        """The user of a token meant for this server; Unauthorized if it is invalid."""
        # Looked up by digest, so that timing reveals nothing about the token.
        if (user := self._known(token)) is not None:
            return user
        try:
            bearer = self._tokens.bearer(token)
        except TokenError as error:
            raise Unauthorized from error
        if bearer is None:
            raise Unauthorized
        return bearer.user

    def review(self, token: str, audiences: tuple[str, ...]) -> tuple[UserInfo, tuple[str, ...]]:
        """The user of a token for these audiences (none: this server's), and the matching audiences; TokenError if invalid."""
        wanted = audiences or self._tokens.audiences
        if (user := self._known(token)) is not None:
            # Static and bootstrap tokens are for this server only.
            if both := tuple(audience for audience in self._tokens.audiences if audience in wanted):
                return user, both
            raise TokenError(INVALID_TOKEN)
        if (bearer := self._tokens.bearer(token, wanted)) is None:
            raise TokenError(INVALID_TOKEN)
        return bearer.user, bearer.audiences

    def _known(self, token: str) -> UserInfo | None:
        """The user of a static or bootstrap token."""
        if user := self._static.get(digest(token)):
            return user
        name = bootstrap_secret(token)
        entry = self._newest(StoreKey("secrets", "kube-system", name)) if name else None
        user = bootstrap_user(token, entry.document, self._clock.now()) if entry else None
        return authenticated(user) if user else None


def bootstrap_secret(token: str) -> str:
    """The name of a bootstrap token's secret; empty if the text is not a bootstrap token (ID.SECRET)."""
    try:
        return BootstrapToken.parse(token).secret_name
    except TokenFormatError:
        return ""


def bootstrap_user(token: str, secret: Document, now: datetime) -> UserInfo | None:
    """The user of a bootstrap token, given its secret; None if the secret does not match or has expired."""
    try:
        found = BootstrapToken.parse(token)
    except TokenFormatError:
        return None
    if secret.get("type") != SECRET_TYPE or "deletionTimestamp" in secret["metadata"]:
        return None
    data = token_data(secret)
    if not found.matches(data) or data.get("usage-bootstrap-authentication") != "true" or has_expired(data, now):
        return None
    groups = extra_groups(data)
    return None if groups is None else UserInfo(f"system:bootstrap:{found.id}", groups)


def bearer_token(header: str) -> str:
    """The token in an Authorization header, empty if there is none."""
    scheme, _, rest = header.strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


# A machine has a handful of client certificates.
@lru_cache(maxsize=1024)
def _read_certificate(der: bytes) -> _Certificate:
    try:
        certificate = x509.load_der_x509_certificate(der)
        expires_at = certificate.not_valid_after_utc.timestamp()
        names, groups, uids = (_values(certificate, oid) for oid in _SUBJECT)
    except ValueError:
        return _Certificate(None, 0, is_proof=False)
    if not names or not names[-1]:
        return _Certificate(None, expires_at)
    if len(uids) > 1 or uids == [""]:
        return _Certificate(None, expires_at, is_proof=False)
    extra = {CREDENTIAL_ID: (f"X509SHA256={sha256(der).hexdigest()}",)}
    # Go takes the last of several common names.
    return _Certificate(authenticated(UserInfo(names[-1], tuple(groups), "".join(uids), extra)), expires_at)


def _values(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid)]
