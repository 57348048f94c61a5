"""The values of one request: who asks, what for, and what is answered.

`app.py` makes a `Call` of an HTTP request and an HTTP response of an `Answer` or a `Stream`; `local.py` does the same
without HTTP. Everything between them knows only these.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pykubelet.api.wire import Document, decode_document, encode
from pykubelet.apiserver.served import Served

Verb = Literal["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]

ANONYMOUS_NAME = "system:anonymous"
ALL_AUTHENTICATED = "system:authenticated"
ALL_UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    """Who asks, as authentication found out."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User(ANONYMOUS_NAME, (ALL_UNAUTHENTICATED,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request about a resource. `query` holds single values by Kubernetes' parameter names."""

    user: User
    verb: Verb
    served: Served
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
class Answer:
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
class Event:
    """One line of a watch. `object` is the text of the object, one bytes value for all watchers of the change."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: bytes


@dataclass(frozen=True, slots=True)
class Stream:
    """The answer to a watch: what is known at a time comes as one batch. Ends when its time is up or it is closed."""

    batches: AsyncGenerator[tuple[Event, ...], None]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What an authorizer is asked: may this user do that? `path` alone for what is no resource."""

    user: User
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
class Decision:
    """The authorizer's answer; `reason` goes into the 403's message."""

    allowed: bool
    reason: str = ""
