"""The values of one request: who asks, what for, and what is answered.

`app.py` makes a `Call` of an HTTP request and an HTTP response of an `Answer` or a `Stream`; `local.py` does the same
without HTTP. Everything between them knows only these.

Names of users and groups with a meaning: nodes and service accounts (pure).

Upstream: pkg/auth/nodeidentifier/default.go, staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.kinds.kind import Kind

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

ANONYMOUS_NAME = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who asks, as authentication found out."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = UserInfo(ANONYMOUS_NAME, (ALL_UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request about a resource. `query` holds single values by Kubernetes' parameter names."""

    user: UserInfo
    verb: Verb
    served: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = "application/json"
    user_agent: str = ""
    warnings: list[str] = field(default_factory=list)
    """What the sender is to be warned of, as it is found out; `Server.handle` hands it over, whatever the outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """One object, list or Status: as JSON text where that is at hand (it is stored so), else as a document."""

    body: bytes | Document
    code: int = 200
    warnings: tuple[str, ...] = ()
    """They become Warning headers."""

    @property
    def text(self) -> bytes:
        """The answer as JSON."""
        return self.body if isinstance(self.body, bytes) else encode(self.body)

    @property
    def document(self) -> Document:
        """The answer as a document; decodes, so ask once."""
        if isinstance(self.body, bytes):
            decoded: Document = decode_document(self.body)
            return decoded
        return self.body


@dataclass(frozen=True, slots=True)
class SerializedEvent:
    """One line of a watch. `object` is the text of the object, one bytes value for all watchers of the change."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: bytes


@dataclass(frozen=True, slots=True)
class WatchStream:
    """The answer to a watch: what is known at a time comes as one batch. Ends when its time is up or it is closed."""

    batches: AsyncGenerator[tuple[SerializedEvent, ...], None]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationAttributes:
    """What an authorizer is asked: may this user do that? `path` alone for what is no resource."""

    user: UserInfo
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: str = ""
    labels: str = ""


@dataclass(frozen=True, slots=True)
class AuthorizationDecision:
    """The authorizer's answer; `reason` goes into the 403's message."""

    allowed: bool
    reason: str = ""


NODE_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"
ACCOUNT_PREFIX = "system:serviceaccount:"
ACCOUNTS_GROUP = "system:serviceaccounts"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"

CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"


def node_of(user: UserInfo) -> str | None:
    """The name of the node that asks; None if the user is no node, empty if it is a node without a name."""
    if not user.name.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name.removeprefix(NODE_PREFIX)


def account_name(namespace: str, name: str) -> str:
    """The user name of a service account."""
    return f"{ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """The groups every service account of a namespace is in."""
    return (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}")


def authenticated(user: UserInfo) -> UserInfo:
    """The user in the group of all that are known, unless its groups say already whether it is."""
    if user.name == ANONYMOUS_NAME or {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, ALL_AUTHENTICATED))
