"""Service account tokens: issues them, and verifies them while the objects they are bound to exist.

A token is verified once and cached; after that, a request checks only that the bound objects are still the same
entries of the store.

Upstream: pkg/serviceaccount/claims.go, pkg/serviceaccount/jwt.go, pkg/serviceaccount/legacy.go,
pkg/serviceaccount/openidmetadata.go
"""

import math
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any, NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.field_errors import go_quote
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import parse_time
from pykubelet.apiserver.authentication.jwt import JwtError, Signer, Verifier, unverified_claims
from pykubelet.apiserver.authentication.tokenfile import digest
from pykubelet.apiserver.authorization.rbac import go_list
from pykubelet.apiserver.certs.certificates import PrivateKey
from pykubelet.apiserver.request import CREDENTIAL_ID, UserInfo, account_groups, account_name, authenticated
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

WARN_ONLY_SECONDS = 3607
"""The lifetime that the kube-api-access volume requests: such a token lives a year, so that old clients keep working."""
EXTENDED_SECONDS = 365 * 24 * 3600
LEEWAY_SECONDS = 60
_KUBERNETES = "kubernetes.io"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_NODE_UID = "authentication.kubernetes.io/node-uid"
ISSUER = "https://kubernetes.default.svc.cluster.local"
LEGACY_ISSUER = "kubernetes/serviceaccount"
"""The issuer of the tokens in Secrets."""
_LEGACY = "kubernetes.io/serviceaccount"
_INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
JWKS_PATH = "/openid/v1/jwks"
# Cached tokens: one or two per pod.
_REMEMBERED = 4096
_INVALIDATED = "service account token has been invalidated"


class BoundObject(NamedTuple):
    name: str
    uid: str

    @property
    def document(self) -> Document:
        """The form in the claims; an unknown uid is omitted."""
        return {"name": self.name, "uid": self.uid} if self.uid else {"name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSubject:
    """The service account of a token and the objects it is bound to. A node beside a pod is information only."""

    namespace: str
    account: BoundObject
    pod: BoundObject | None = None
    secret: BoundObject | None = None
    node: BoundObject | None = None

    def user(self, token_id: str) -> UserInfo:
        extra: dict[str, tuple[str, ...]] = {}
        if self.pod is not None:
            extra |= {_POD_NAME: (self.pod.name,), _POD_UID: (self.pod.uid,)}
        if token_id:
            extra[CREDENTIAL_ID] = (f"JTI={token_id}",)
        if self.node is not None:
            extra[_NODE_NAME] = (self.node.name,)
            if self.node.uid:
                extra[_NODE_UID] = (self.node.uid,)
        return UserInfo(
            account_name(self.namespace, self.account.name), account_groups(self.namespace), self.account.uid, extra
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """The claims of a service account token; times in seconds since 1970."""

    subject: TokenSubject
    issuer: str
    audiences: tuple[str, ...]
    token_id: str
    issued_at: int
    expires_at: int
    warn_after: int = 0

    @property
    def document(self) -> Document:
        subject = self.subject
        bound = {"node": subject.node, "pod": subject.pod, "secret": subject.secret}
        private: Document = {"namespace": subject.namespace}
        private |= {field: named.document for field, named in bound.items() if named is not None}
        private["serviceaccount"] = subject.account.document
        if self.warn_after:
            private["warnafter"] = self.warn_after
        return {
            "aud": list(self.audiences),
            "exp": self.expires_at,
            "iat": self.issued_at,
            "iss": self.issuer,
            "jti": self.token_id,
            _KUBERNETES: private,
            "nbf": self.issued_at,
            "sub": account_name(subject.namespace, subject.account.name),
        }


class TokenBearer(NamedTuple):
    """The user of a token, and those of the requested audiences that it is for."""

    user: UserInfo
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _VerifiedToken:
    """A verified token: valid before a time while these entries are in the store."""

    user: UserInfo
    audiences: tuple[str, ...]
    before: float
    entries: tuple[StoreEntry, ...]


class ServiceAccountTokens:
    """Issues and verifies the tokens of one server. `issuer` is also the default audience. `get` reads the store."""

    def __init__(
        self,
        key: PrivateKey,
        get: Callable[[StoreKey], StoreEntry | None],
        *,
        clock: Clock,
        ids: Ids,
        issuer: str = ISSUER,
    ) -> None:
        self._signer, self._verifier = Signer(key), Verifier([key.public_key()])
        self._get, self._clock, self._ids = get, clock, ids
        self.issuer, self.audiences = issuer, (issuer,)
        self._verified: dict[bytes, _VerifiedToken] = {}

    def issue(
        self, subject: TokenSubject, *, audiences: Sequence[str], seconds: int, warn_after_seconds: int = 0
    ) -> str:
        claims = make_claims(
            subject,
            issuer=self.issuer,
            audiences=audiences,
            token_id=self._ids.uid(),
            now=self._clock.now(),
            seconds=seconds,
            warn_after_seconds=warn_after_seconds,
        )
        return self._signer.sign(claims.document)

    def issue_legacy(self, namespace: str, account: BoundObject, secret: str) -> str:
        """The token for a Secret, which is valid as long as the Secret has it."""
        claims = {
            "iss": LEGACY_ISSUER,
            f"{_LEGACY}/namespace": namespace,
            f"{_LEGACY}/secret.name": secret,
            f"{_LEGACY}/service-account.name": account.name,
            f"{_LEGACY}/service-account.uid": account.uid,
            "sub": account_name(namespace, account.name),
        }
        return self._signer.sign(claims)

    def bearer(self, token: str, audiences: Sequence[str] = ()) -> TokenBearer | None:
        """The user of a token for one of these audiences (none: this server's); None if another issuer signed it.

        Raises TokenError if it is this server's token but invalid.
        """
        key = digest(token)
        verified = self._verified.get(key)
        if verified is None or not self._still_holds(verified):
            self._verified.pop(key, None)
            found = self._verify(token)
            if found is None:
                return None
            if len(self._verified) >= _REMEMBERED:
                self._verified.clear()
            verified = self._verified[key] = found
        wanted = tuple(audiences) or self.audiences
        both = tuple(audience for audience in verified.audiences if audience in wanted)
        if not both:
            actual, requested = go_list(verified.audiences), go_list(wanted)
            raise TokenError(f"token audiences {actual} is invalid for the target audiences {requested}")
        return TokenBearer(verified.user, both)

    def discovery(self, server: str) -> bytes:
        """The OpenID configuration; `server` is this server's URL."""
        return encode(
            {
                "issuer": self.issuer,
                "jwks_uri": f"{server.rstrip('/')}{JWKS_PATH}",
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": self._verifier.algorithms(),
            }
        )

    def key_set(self) -> bytes:
        """The public keys with which others can verify the tokens."""
        return encode(self._verifier.key_set())

    def _still_holds(self, verified: _VerifiedToken) -> bool:
        is_current = self._clock.now().timestamp() < verified.before
        return is_current and all(self._get(entry.key) is entry for entry in verified.entries)

    def _verify(self, token: str) -> _VerifiedToken | None:
        unverified = unverified_claims(token)
        if unverified is not None and unverified.get("iss") == LEGACY_ISSUER:
            return self._verify_legacy(token)
        if unverified is None or unverified.get("iss") != self.issuer:
            return None
        try:
            claims = read_claims(self._verifier.claims(token), self._clock.now())
        except (JwtError, ClaimsError) as error:
            raise TokenError(str(error)) from error
        entries, before = self._bound(claims)
        audiences = claims.audiences or self.audiences
        return _VerifiedToken(authenticated(claims.subject.user(claims.token_id)), audiences, before, entries)

    def _verify_legacy(self, token: str) -> _VerifiedToken:
        try:
            claims = self._verifier.claims(token)
        except JwtError as error:
            raise TokenError(str(error)) from error
        fields = ("namespace", "secret.name", "service-account.name", "service-account.uid")
        namespace, secret, name, uid = (_text(claims, f"{_LEGACY}/{field}") for field in fields)
        if not (namespace and secret and name and uid):
            raise TokenError(_INVALIDATED)
        if claims.get("sub") != account_name(namespace, name):
            raise TokenError("sub claim is invalid")
        entry = self._get(StoreKey("secrets", namespace, secret))
        if entry is None or "deletionTimestamp" in entry.document["metadata"]:
            raise TokenError("Token has been invalidated")
        stored = b64decode(entry.document.get("data", {}).get("token") or "")
        if not compare_digest(stored, token.encode()):
            raise TokenError("Token does not match server's copy")
        if since := entry.document["metadata"].get("labels", {}).get(_INVALID_SINCE):
            raise TokenError(f"the token in secret {namespace}/{secret} has been marked invalid since {since}")
        account = BoundObject(name, uid)
        found, document = self._account(namespace, account)
        user = TokenSubject(namespace=namespace, account=account).user("")
        return _VerifiedToken(authenticated(user), self.audiences, _end(document), (entry, found))

    def _bound(self, claims: Claims) -> tuple[tuple[StoreEntry, ...], float]:
        """The entries that a token is bound to, and when it ends because of its own lifetime or theirs."""
        subject = claims.subject
        namespace, account = subject.namespace, subject.account
        found = [self._account(namespace, account)]
        for kind, named in (("secret", subject.secret), ("pod", subject.pod)):
            if named is not None:
                found.append(self._object(kind, StoreKey(f"{kind}s", namespace, named.name), named))
        if subject.node is not None and subject.pod is None:
            found.append(self._object("node", StoreKey("nodes", "", subject.node.name), subject.node))
        ends = [float(claims.expires_at), *(_end(document) for _, document in found)]
        return tuple(entry for entry, _ in found), min(ends) + LEEWAY_SECONDS

    def _account(self, namespace: str, named: BoundObject) -> tuple[StoreEntry, Document]:
        entry = self._get(StoreKey("serviceaccounts", namespace, named.name))
        if entry is None:
            raise TokenError(f"serviceaccounts {go_quote(named.name)} not found")
        document = entry.document
        if (uid := document["metadata"].get("uid", "")) != named.uid:
            raise TokenError(f"service account UID ({uid}) does not match claim ({named.uid})")
        if self._is_gone(document):
            raise TokenError(f"service account {namespace}/{named.name} has been deleted")
        return entry, document

    def _object(self, kind: str, key: StoreKey, named: BoundObject) -> tuple[StoreEntry, Document]:
        entry = self._get(key)
        if entry is None:
            raise TokenError(_INVALIDATED)
        document = entry.document
        if (uid := document["metadata"].get("uid", "")) != named.uid:
            raise TokenError(f"{kind} UID ({uid}) does not match service account {kind} ref claim ({named.uid})")
        if self._is_gone(document):
            raise TokenError(_INVALIDATED)
        return entry, document

    def _is_gone(self, document: Document) -> bool:
        return self._clock.now().timestamp() > _end(document) + LEEWAY_SECONDS


class ClaimsError(ValueError):
    """The claims are not those of a service account token, or the token is not valid now."""


def make_claims(
    subject: TokenSubject,
    *,
    issuer: str,
    audiences: Sequence[str],
    token_id: str,
    now: datetime,
    seconds: int,
    warn_after_seconds: int = 0,
) -> Claims:
    """The claims of a token that expires in so many seconds."""
    return Claims(
        subject=subject,
        issuer=issuer,
        audiences=tuple(audiences),
        token_id=token_id,
        issued_at=int(now.timestamp()),
        expires_at=int((now + timedelta(seconds=seconds)).timestamp()),
        warn_after=int((now + timedelta(seconds=warn_after_seconds)).timestamp()) if warn_after_seconds else 0,
    )


def read_claims(document: Document, now: datetime) -> Claims:
    """Parses verified claims; ClaimsError if they are invalid at this time."""
    at = now.timestamp()
    expires, not_before, issued = (_number(document, field) for field in ("exp", "nbf", "iat"))
    if not expires or at - LEEWAY_SECONDS > expires:
        raise ClaimsError("service account token has expired")
    if at + LEEWAY_SECONDS < not_before:
        raise ClaimsError("service account token is not valid yet")
    if at + LEEWAY_SECONDS < issued:
        raise ClaimsError("service account token is issued in the future")
    private = _object(document, _KUBERNETES)
    account = _named(private, "serviceaccount")
    if account is None:
        raise ClaimsError("service account token names no service account")
    subject = TokenSubject(
        namespace=_text(private, "namespace"),
        account=account,
        pod=_named(private, "pod"),
        secret=_named(private, "secret"),
        node=_named(private, "node"),
    )
    audiences = document.get("aud") or ()
    return Claims(
        subject=subject,
        issuer=_text(document, "iss"),
        audiences=(audiences,) if isinstance(audiences, str) else tuple(map(str, audiences)),
        token_id=_text(document, "jti"),
        issued_at=issued,
        expires_at=expires,
        warn_after=_number(private, "warnafter"),
    )


def _named(private: Document, field: str) -> BoundObject | None:
    if field not in private:
        return None
    found = _object(private, field)
    return BoundObject(_text(found, "name"), _text(found, "uid"))


def _object(document: Document, field: str) -> Document:
    value: Any = document.get(field)
    return value if isinstance(value, dict) else {}


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    return value if isinstance(value, str) else ""


def _number(document: Mapping[str, Any], field: str) -> int:
    value = document.get(field)
    return int(value) if type(value) is int or (type(value) is float and math.isfinite(value)) else 0


class TokenError(ValueError):
    """A token of this server that is no longer valid, and why."""


def _end(document: Document) -> float:
    """When an object that is being deleted is finally removed; infinity if it is not being deleted."""
    deleted_at = document["metadata"].get("deletionTimestamp")
    return parse_time(deleted_at).timestamp() if deleted_at else float("inf")
