"""The values of one request: user, request, response, watch events, authorization attributes.

The handler chain makes an `ApiRequest` of an HTTP request, `loopback.py` makes one without HTTP, and handlers know
nothing else.

Upstream: staging/src/k8s.io/apiserver/pkg/authentication/user/user.go,
staging/src/k8s.io/apiserver/pkg/authorization/authorizer/interfaces.go,
staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go, pkg/auth/nodeidentifier/default.go
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pykubelet.api.serializer import Document, decode_document, encode
from pykubelet.apiserver.storage.codec import StoredList
from pykubelet.apiserver.storage.interfaces import StoreEntry
from pykubelet.kinds.kind import Kind

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
ANONYMOUS_NAME = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class UserInfo:
    """An authenticated user: name, groups, uid and extra attributes."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = UserInfo(ANONYMOUS_NAME, (ALL_UNAUTHENTICATED,))
NODE_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"
ACCOUNT_PREFIX = "system:serviceaccount:"
ACCOUNTS_GROUP = "system:serviceaccounts"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
CONTROLLER_MANAGER = "system:kube-controller-manager"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request about a resource. `query` has the first value of each parameter."""

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
    """Warnings for the sender, recorded while the request is handled; `Server.handle` adds them to the response."""
    annotations: dict[str, str] = field(default_factory=dict)
    """What admission adds to the request's line in the audit log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiResponse:
    """An object, list or Status: as it is stored, as JSON text, or as a document."""

    body: StoreEntry | StoredList | bytes | Document
    code: int = 200
    warnings: tuple[str, ...] = ()
    """Sent as Warning headers."""

    @property
    def text(self) -> bytes:
        body = self.body
        if isinstance(body, bytes):
            return body
        return encode(body) if isinstance(body, dict) else body.text

    @property
    def document(self) -> Document:
        """The body as a document; each call decodes it."""
        if isinstance(self.body, dict):
            return self.body
        decoded: Document = decode_document(self.text)
        return decoded


@dataclass(frozen=True, slots=True)
class SerializedEvent:
    """One event of a watch. `object` is JSON text, one bytes value for all watchers of the change.

    `entry` is set if it has that text; it keeps the object's other encoding for all watchers.
    """

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: bytes
    entry: StoreEntry | None = None


@dataclass(frozen=True, slots=True)
class WatchStream:
    """The response to a watch: batches of events until the timeout or until it is closed."""

    batches: AsyncGenerator[tuple[SerializedEvent, ...], None]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationAttributes:
    """What an authorizer decides on: a user and a resource, or only a path."""

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
    """The authorizer's decision; `reason` appears in the 403's message."""

    allowed: bool
    reason: str = ""


def node_of(user: UserInfo) -> str | None:
    """The node name of a user; None if the user is not a node, empty if it is a node without a name."""
    if not user.name.startswith(NODE_PREFIX) or NODES_GROUP not in user.groups:
        return None
    return user.name.removeprefix(NODE_PREFIX)


def account_name(namespace: str, name: str) -> str:
    return f"{ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    return (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}")


def authenticated(user: UserInfo) -> UserInfo:
    """Adds the group `system:authenticated` unless the user's groups say whether it is authenticated."""
    if user.name == ANONYMOUS_NAME or {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(user.groups):
        return user
    return replace(user, groups=(*user.groups, ALL_AUTHENTICATED))
