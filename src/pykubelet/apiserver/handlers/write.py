"""What the verbs work with, and what they have to know of one write.

What the server itself does with the metadata of every object, whatever its kind.

In: documents before and after a change. Out: new documents, complaints, or whether an object has nothing left to wait
for. Nothing here changes what it is given.

Upstream: k8s.io/apiserver/pkg/registry/rest/{meta,create,update}.go, endpoints/handlers/rest.go (owner references)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.field_errors import FieldError, each_invalid
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import format_time
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes, AdmissionPlugin, admitted
from pykubelet.apiserver.authorization.authorizer import forbidden_error
from pykubelet.apiserver.errors import namespace_mismatch
from pykubelet.apiserver.fieldmanager.fieldmanager import record
from pykubelet.apiserver.fieldmanager.managedfields import manager_name
from pykubelet.apiserver.fieldmanager.typeconverter import TypeConverter
from pykubelet.apiserver.handlers.options import WriteOptions
from pykubelet.apiserver.request import ApiRequest, AuthorizationAttributes, AuthorizationDecision
from pykubelet.apiserver.serializer.decoder import ExpectedKind
from pykubelet.apiserver.storage.interfaces import Store
from pykubelet.kinds.kind import Kind
from pykubelet.kinds.metadata import generic_metadata_errors, metadata_update_errors

SYSTEM_FIELDS = frozenset({"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"})
# What the server writes itself, and so need not check.
_MOVING = frozenset({"generation", "managedFields", "resourceVersion"})
_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)
AFTER_ADMISSION = " after mutating admission happens"


def with_metadata(document: Document, **fields: Any) -> Document:
    """The document with these fields in its metadata; None takes one out."""
    metadata = {**document["metadata"], **fields}
    return {**document, "metadata": {key: value for key, value in metadata.items() if value is not None}}


def without_system_fields(document: Document) -> Document:
    """A document that is to be created, without what only the server says."""
    metadata = document["metadata"]
    if SYSTEM_FIELDS.isdisjoint(metadata):
        return document
    kept = {key: value for key, value in metadata.items() if key not in SYSTEM_FIELDS}
    return {**document, "metadata": kept}


def in_namespace(document: Document, namespace: str) -> Document:
    """The document in the request's namespace (empty for cluster scope); BadRequest if it names another."""
    named = document["metadata"].get("namespace", "")
    if named == namespace:
        return document
    if named and namespace:
        raise namespace_mismatch()
    return with_metadata(document, namespace=namespace or None)


def without_repeated_owners(document: Document, *, when: str = "") -> tuple[Document, tuple[str, ...]]:
    """The document with each owner reference once, and the warning if that makes a difference."""
    owners = document["metadata"].get("ownerReferences", ())
    if len(owners) < 2:
        return document, ()
    # By their text and not by comparing each with all: there may be very many.
    kept: dict[bytes, Document] = {}
    repeated: list[str] = []
    for owner in owners:
        text = encode(dict(sorted(owner.items())))
        if text in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept[text] = owner
    if not repeated:
        return document, ()
    warning = _DUPLICATE_OWNERS.format(when=when, uids=", ".join(repeated))
    return with_metadata(document, ownerReferences=list(kept.values())), (warning,)


def carried_over(new: Document, old: Document) -> Document:
    """A changed document with what a change cannot touch: creation, deletion; and the UID, if it says none."""
    before, after = old["metadata"], {**new["metadata"]}
    if not after.get("uid"):
        after["uid"] = before["uid"]
    for name in ("creationTimestamp", "deletionTimestamp"):
        if before.get(name) is not None:
            after[name] = before[name]
    if before.get("deletionGracePeriodSeconds") is not None and after.get("deletionGracePeriodSeconds") is None:
        after["deletionGracePeriodSeconds"] = before["deletionGracePeriodSeconds"]
    return {**new, "metadata": after}


def creation_errors(document: Document) -> list[FieldError]:
    """What is wrong with the name of a new object of any kind; the rest of its metadata is checked by the kind's rules."""
    metadata = document["metadata"]
    return [
        *each_invalid("metadata.generateName", prefix := metadata.get("generateName", ""), path_segment_errors(prefix)),
        *each_invalid("metadata.name", name := metadata.get("name", ""), path_segment_errors(name)),
    ]


def update_errors(new: Document, old: Document, *, namespaced: bool) -> list[FieldError]:
    """What is wrong with the metadata of a changed object of any kind; nothing if that did not change."""
    after, before = new["metadata"], old["metadata"]
    if after.keys() - _MOVING == before.keys() - _MOVING and all(
        after[name] == before[name] for name in after if name not in _MOVING
    ):
        return []
    errors = generic_metadata_errors(after, name_rule=path_segment_errors, namespaced=namespaced)
    return errors + metadata_update_errors(after, before)


def path_segment_errors(name: str) -> list[str]:
    """Whether the name can stand in a path."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in name]


def has_nothing_left(new: Document, old: Document) -> bool:
    """Whether a change takes away the last thing that the deletion of an object waited for."""
    before = old["metadata"]
    if new["metadata"].get("finalizers") or before.get("deletionTimestamp") is None:
        return False
    if new["kind"] == "Namespace" and new.get("spec", {}).get("finalizers"):
        return False
    return not before.get("deletionGracePeriodSeconds")


_ALLOWED = AuthorizationDecision(allowed=True)


def allow_all(_review: AuthorizationAttributes) -> AuthorizationDecision:
    """For a server that only its own process can reach."""
    return _ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """The server's parts."""

    store: Store
    clock: Clock
    ids: Ids
    schemas: TypeConverter
    admission: Sequence[AdmissionPlugin] = ()
    authorize: Callable[[AuthorizationAttributes], AuthorizationDecision] = allow_all


@dataclass(slots=True)
class WriteRequest:
    """One write under way: what was asked for, how, and what its sender is to be warned of."""

    call: ApiRequest
    options: WriteOptions

    @property
    def served(self) -> Kind:
        return self.call.served

    @property
    def namespace(self) -> str:
        """Where the object belongs; empty for cluster scope."""
        return self.call.namespace if self.call.served.resource.namespaced else ""

    @property
    def manager(self) -> str:
        """Who is written down as the owner of the fields that are set."""
        return manager_name(self.options.field_manager, self.call.user_agent)

    def warn(self, *texts: str) -> None:
        """Tell the sender; each text once, however often the decision is made."""
        told = self.call.warnings
        if texts:
            told[:] = dict.fromkeys((*told, *texts))

    def admit(
        self,
        means: RequestScope,
        verb: Literal["create", "update", "delete"],
        name: str,
        new: Document | None,
        old: Document | None,
    ) -> Document | None:
        """Ask all rules of admission."""
        if not means.admission:
            return new
        call = self.call
        is_namespace = call.served.resource.group_resource == "namespaces"
        request = AdmissionAttributes(
            user=call.user,
            verb=verb,
            served=call.served,
            namespace=name if is_namespace else self.namespace,
            name=name,
            subresource=call.subresource,
            dry_run=self.options.dry_run,
        )
        return admitted(means.admission, request, new, old)

    def check_creation(self, means: RequestScope) -> None:
        """Forbidden if the sender may change such an object, but not create one."""
        call, resource = self.call, self.served.resource
        review = AuthorizationAttributes(
            user=call.user,
            verb="create",
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            subresource=call.subresource,
            namespace=self.namespace,
            name=call.name,
        )
        decision = means.authorize(review)
        if not decision.allowed:
            raise forbidden_error(review, decision)

    def recorded(self, means: RequestScope, new: Document, live: Document | None) -> Document:
        """The new object with its managed fields brought up to date."""
        served = self.served
        return record(
            new,
            live,
            definition=means.schemas.of(served),
            manager=self.manager,
            api_version=served.resource.api_version,
            subresource=self.call.subresource,
            now=now_text(means.clock.now()),
        )


def now_text(now: datetime) -> str:
    """The time as objects carry it."""
    return format_time(now)


def expected_of(served: Kind) -> ExpectedKind:
    """The kind that a body sent to a resource must be of."""
    resource = served.resource
    return ExpectedKind(resource.api_version, resource.kind, served.definition)
