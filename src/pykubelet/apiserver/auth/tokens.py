"""Service account tokens: made, and believed as long as what they are bound to exists.

In: a key, and the store. A token is proved once and remembered; after that a request costs a look whether the objects
it is bound to are still the same entries of the store.

Upstream: pkg/serviceaccount/{jwt,claims,openidmetadata}.go
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.times import parse_time
from pykubelet.api.validation.field_errors import go_quote
from pykubelet.api.wire import Document, encode
from pykubelet.apiserver.auth.certificates import PrivateKey
from pykubelet.apiserver.auth.claims import (
    LEEWAY_SECONDS,
    Claims,
    ClaimsError,
    Named,
    Subject,
    make_claims,
    read_claims,
)
from pykubelet.apiserver.auth.identity import authenticated
from pykubelet.apiserver.auth.jwt import JwtError, Signer, Verifier, unverified_claims
from pykubelet.apiserver.auth.rules import go_list
from pykubelet.apiserver.auth.token_file import digest
from pykubelet.apiserver.call import User
from pykubelet.apiserver.store import Entry, Key

ISSUER = "https://kubernetes.default.svc.cluster.local"
JWKS_PATH = "/openid/v1/jwks"
# Tokens in use at a time: one or two per pod.
_REMEMBERED = 4096
_INVALIDATED = "service account token has been invalidated"


class TokenError(ValueError):
    """A token of ours that is not valid (any more), and why."""


class Reader(Protocol):
    """What tokens need of the store."""

    def get(self, key: Key) -> Entry | None:
        """The committed entry."""


class Bearer(NamedTuple):
    """Who shows a token, and for whom among those asked about it was made."""

    user: User
    audiences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Proved:
    """A token that was proved: it is valid before a time while these entries are in the store."""

    user: User
    audiences: tuple[str, ...]
    before: float
    entries: tuple[Entry, ...]


class ServiceAccountTokens:
    """Makes and knows the tokens of one server. `issuer` is the first audience as well."""

    def __init__(self, key: PrivateKey, reader: Reader, *, clock: Clock, ids: Ids, issuer: str = ISSUER) -> None:
        self._signer, self._verifier = Signer(key), Verifier([key.public_key()])
        self._reader, self._clock, self._ids = reader, clock, ids
        self.issuer, self.audiences = issuer, (issuer,)
        self._proved: dict[bytes, _Proved] = {}

    def issue(self, subject: Subject, *, audiences: Sequence[str], seconds: int, warn_after_seconds: int = 0) -> str:
        """A new token."""
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

    def bearer(self, token: str, audiences: Sequence[str] = ()) -> Bearer | None:
        """Who shows the token to one of these audiences (none: this server); None if it is no token of ours.

        TokenError if it is one, but is not valid.
        """
        key = digest(token)
        proved = self._proved.get(key)
        if proved is None or not self._still_holds(proved):
            self._proved.pop(key, None)
            found = self._prove(token)
            if found is None:
                return None
            if len(self._proved) >= _REMEMBERED:
                self._proved.clear()
            proved = self._proved[key] = found
        wanted = tuple(audiences) or self.audiences
        both = tuple(audience for audience in proved.audiences if audience in wanted)
        if not both:
            given, asked = go_list(proved.audiences), go_list(wanted)
            raise TokenError(f"token audiences {given} is invalid for the target audiences {asked}")
        return Bearer(proved.user, both)

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
        """The public keys, for others to verify our tokens with."""
        return encode(self._verifier.key_set())

    def _still_holds(self, proved: _Proved) -> bool:
        if self._clock.now().timestamp() >= proved.before:
            return False
        get = self._reader.get
        return all(get(entry.key) is entry for entry in proved.entries)

    def _prove(self, token: str) -> _Proved | None:
        unproved = unverified_claims(token)
        if unproved is None or unproved.get("iss") != self.issuer:
            return None
        try:
            claims = read_claims(self._verifier.claims(token), self._clock.now())
        except (JwtError, ClaimsError) as error:
            raise TokenError(str(error)) from error
        entries, before = self._bound(claims)
        audiences = claims.audiences or self.audiences
        return _Proved(authenticated(claims.subject.user(claims.token_id)), audiences, before, entries)

    def _bound(self, claims: Claims) -> tuple[tuple[Entry, ...], float]:
        """The entries a token is bound to, and when it ends because of its own time or theirs."""
        subject = claims.subject
        namespace, account = subject.namespace, subject.account
        found = [self._account(namespace, account)]
        for kind, named in (("secret", subject.secret), ("pod", subject.pod)):
            if named is not None:
                found.append(self._object(kind, Key(f"{kind}s", namespace, named.name), named))
        if subject.node is not None and subject.pod is None:
            found.append(self._object("node", Key("nodes", "", subject.node.name), subject.node))
        ends = [float(claims.expires_at), *(_end(document) for _, document in found)]
        return tuple(entry for entry, _ in found), min(ends) + LEEWAY_SECONDS

    def _account(self, namespace: str, named: Named) -> tuple[Entry, Document]:
        entry = self._reader.get(Key("serviceaccounts", namespace, named.name))
        if entry is None:
            raise TokenError(f"serviceaccounts {go_quote(named.name)} not found")
        document = entry.document
        if (uid := document["metadata"].get("uid", "")) != named.uid:
            raise TokenError(f"service account UID ({uid}) does not match claim ({named.uid})")
        if self._is_gone(document):
            raise TokenError(f"service account {namespace}/{named.name} has been deleted")
        return entry, document

    def _object(self, kind: str, key: Key, named: Named) -> tuple[Entry, Document]:
        entry = self._reader.get(key)
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


def _end(document: Document) -> float:
    """When an object that is being deleted is gone for good; never, if it is not."""
    deleted_at = document["metadata"].get("deletionTimestamp")
    return parse_time(deleted_at).timestamp() if deleted_at else float("inf")
