"""What a service account token says, and whom it makes (pure).

In: the objects a token is for and bound to. Out: its claims; and of claims that were proved, their meaning.

Upstream: pkg/serviceaccount/claims.go
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from pykubelet.api.wire import Document
from pykubelet.apiserver.auth.identity import CREDENTIAL_ID, account_groups, account_name
from pykubelet.apiserver.call import User

WARN_ONLY_SECONDS = 3607
"""The life that the kube-api-access volume asks for: such a token lives a year, so that old clients keep working."""
EXTENDED_SECONDS = 365 * 24 * 3600
LEEWAY_SECONDS = 60

_KUBERNETES = "kubernetes.io"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_NODE_UID = "authentication.kubernetes.io/node-uid"


class Named(NamedTuple):
    """An object by name and uid."""

    name: str
    uid: str

    @property
    def document(self) -> Document:
        """As claims have it; an unknown uid is left out."""
        return {"name": self.name, "uid": self.uid} if self.uid else {"name": self.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom a token makes, and the objects it dies with. A node beside a pod is only told, not bound to."""

    namespace: str
    account: Named
    pod: Named | None = None
    secret: Named | None = None
    node: Named | None = None

    def user(self, token_id: str) -> User:
        """The user that the bearer is."""
        extra: dict[str, tuple[str, ...]] = {}
        if self.pod is not None:
            extra |= {_POD_NAME: (self.pod.name,), _POD_UID: (self.pod.uid,)}
        if token_id:
            extra[CREDENTIAL_ID] = (f"JTI={token_id}",)
        if self.node is not None:
            extra[_NODE_NAME] = (self.node.name,)
            if self.node.uid:
                extra[_NODE_UID] = (self.node.uid,)
        return User(
            account_name(self.namespace, self.account.name), account_groups(self.namespace), self.account.uid, extra
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """A token in plain words; times in seconds since 1970."""

    subject: Subject
    issuer: str
    audiences: tuple[str, ...]
    token_id: str
    issued_at: int
    expires_at: int
    warn_after: int = 0

    @property
    def document(self) -> Document:
        """The claims as the token carries them."""
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


class ClaimsError(ValueError):
    """The claims are not those of a service account token, or their time is not now."""


def make_claims(
    subject: Subject,
    *,
    issuer: str,
    audiences: Sequence[str],
    token_id: str,
    now: datetime,
    seconds: int,
    warn_after_seconds: int = 0,
) -> Claims:
    """The claims of a token that lives so many seconds from now."""
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
    """The claims of a proved token at a time that it is valid; ClaimsError otherwise."""
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
    subject = Subject(
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


def _named(private: Document, field: str) -> Named | None:
    if field not in private:
        return None
    found = _object(private, field)
    return Named(_text(found, "name"), _text(found, "uid"))


def _object(document: Document, field: str) -> Document:
    value: Any = document.get(field)
    return value if isinstance(value, dict) else {}


def _text(document: Mapping[str, Any], field: str) -> str:
    value = document.get(field)
    return value if isinstance(value, str) else ""


def _number(document: Mapping[str, Any], field: str) -> int:
    value = document.get(field)
    return int(value) if type(value) is int or (type(value) is float and math.isfinite(value)) else 0
