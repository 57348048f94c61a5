"""What create, update, patch and delete share: dependencies, options, warnings and metadata rules.

The metadata functions hold for objects of every kind. They return new documents and never change their arguments.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/rest.go,
staging/src/k8s.io/apiserver/pkg/registry/rest/meta.go,
staging/src/k8s.io/apiserver/pkg/registry/rest/create.go,
staging/src/k8s.io/apiserver/pkg/registry/rest/update.go,
staging/src/k8s.io/apiserver/pkg/admission/chain.go
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.field_errors import FieldError, each_invalid
from pykubelet.api.serializer import Document, encode
from pykubelet.api.times import format_time
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes, AdmissionPlugin, AdmissionVerb, ValidatePlugin
from pykubelet.apiserver.admission.plugin.webhook.reviews import RequestReviews
from pykubelet.apiserver.authorization.authorizer import forbidden_error
from pykubelet.apiserver.errors import namespace_mismatch
from pykubelet.apiserver.fieldmanager import fieldmanager
from pykubelet.apiserver.fieldmanager.managedfields import manager_name
from pykubelet.apiserver.fieldmanager.typeconverter import TypeConverter
from pykubelet.apiserver.handlers.options import WriteOptions, stated_options
from pykubelet.apiserver.request import ApiRequest, AuthorizationAttributes, AuthorizationDecision
from pykubelet.apiserver.serializer.decoder import ExpectedKind, decode_in_thread
from pykubelet.apiserver.storage.interfaces import Store
from pykubelet.kinds.kind import Kind
from pykubelet.kinds.metadata import generic_metadata_errors, metadata_update_errors

SYSTEM_FIELDS = frozenset({"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"})
AFTER_ADMISSION = " after mutating admission happens"
# Only the server writes these fields, so an update need not validate them.
_SERVER_FIELDS = frozenset({"generation", "managedFields", "resourceVersion"})
_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
)
_ALLOWED = AuthorizationDecision(allowed=True)


def allow_all(_attributes: AuthorizationAttributes) -> AuthorizationDecision:
    """Authorizes everything: for a server that only its own process can reach."""
    return _ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestScope:
    """What the handlers of all requests depend on."""

    store: Store
    clock: Clock
    ids: Ids
    schemas: TypeConverter
    admission: Sequence[AdmissionPlugin] = ()
    validation: Sequence[ValidatePlugin] = ()
    """What validates after the kind's own rules: policies."""
    reviews: RequestReviews | None = None
    """The answers of webhooks, if any are configured."""
    authorize: Callable[[AuthorizationAttributes], AuthorizationDecision] = allow_all

    def now(self) -> str:
        return format_time(self.clock.now())


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """One create, update, patch or delete: the request, its options and the warnings recorded for its sender."""

    scope: RequestScope
    request: ApiRequest
    options: WriteOptions
    state_options: Callable[[], Document | None] | None = None
    """Makes the options for webhooks, where they are not those of the query."""
    now: str = field(init=False)
    """The time of the write, also for a thread that has no clock of the event loop."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "now", self.scope.now())

    @property
    def served(self) -> Kind:
        return self.request.served

    @property
    def namespace(self) -> str:
        """The object's namespace; empty for cluster scope."""
        return self.request.namespace if self.served.resource.namespaced else ""

    @property
    def field_manager(self) -> str:
        """The manager recorded as the owner of the fields that an update sets."""
        return manager_name(self.options.field_manager, self.request.user_agent)

    @property
    def expected(self) -> ExpectedKind:
        """The kind that the body must be of."""
        return ExpectedKind.of(self.served)

    def warn(self, *texts: str) -> None:
        """Adds warnings to the response. Each text appears once, however often the store repeats a decision."""
        if texts:
            self.request.warnings[:] = dict.fromkeys((*self.request.warnings, *texts))

    def admit(self, verb: AdmissionVerb, name: str, new: Document | None, old: Document | None) -> Document | None:
        """Runs the admission plugins and mutating webhooks; returns the object as they changed it."""
        scope, attributes = self.scope, self._attributes(verb, name)
        run = partial(run_admission, scope.admission)
        return run(attributes, new, old) if scope.reviews is None else scope.reviews.admit(attributes, new, old, run)

    def validate(self, verb: AdmissionVerb, name: str, new: Document | None, old: Document | None) -> None:
        """Has policies and validating webhooks look at what would be stored; raises ApiError."""
        scope = self.scope
        if any(scope.validation) or scope.reviews is not None:
            attributes = self._attributes(verb, name)
            for validate in scope.validation:
                validate(attributes, new, old)
            if scope.reviews is not None:
                scope.reviews.validate(attributes, new, old)

    def _attributes(self, verb: AdmissionVerb, name: str) -> AdmissionAttributes:
        request = self.request
        is_namespace = self.served.resource.group_resource == "namespaces"
        return AdmissionAttributes(
            user=request.user,
            verb=verb,
            served=self.served,
            namespace=name if is_namespace else self.namespace,
            name=name,
            subresource=request.subresource,
            dry_run=self.options.dry_run,
            warn=self.warn,
            state_options=partial(stated_options, request) if self.state_options is None else self.state_options,
            annotate=request.annotations.__setitem__,
        )

    def authorize_create(self) -> None:
        """Raises Forbidden if the sender may update such an object but not create one."""
        request, resource = self.request, self.served.resource
        attributes = AuthorizationAttributes(
            user=request.user,
            verb="create",
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            subresource=request.subresource,
            namespace=self.namespace,
            name=request.name,
        )
        decision = self.scope.authorize(attributes)
        if not decision.allowed:
            raise forbidden_error(attributes, decision)

    def record_owners(self, new: Document, live: Document | None, kind: ExpectedKind | None = None) -> Document:
        """Updates `managedFields` of the new object; `kind` is its kind if it is not the request's."""
        return self._recording(new, live, kind)()

    async def record_first_owners(self, new: Document) -> Document:
        """Sets `managedFields` of an object to create. Those of long lists take long, so a thread computes them."""
        return await decode_in_thread(self.request, self._recording(new, None, None))

    def _recording(self, new: Document, live: Document | None, kind: ExpectedKind | None) -> Callable[[], Document]:
        return partial(
            fieldmanager.record,
            new,
            live,
            definition=self.scope.schemas.of(self.served) if kind is None else kind.definition,
            manager=self.field_manager,
            api_version=(kind or self.expected).api_version,
            subresource=self.request.subresource,
            now=self.now,
        )

    def apply(self, live: Document | None, configuration: Document, kind: ExpectedKind | None = None) -> Document:
        """Merges an applied configuration into the live object; raises Conflict."""
        return fieldmanager.apply(
            live,
            configuration,
            definition=self.scope.schemas.of(self.served) if kind is None else kind.definition,
            manager=self.options.field_manager,
            api_version=(kind or self.expected).api_version,
            subresource=self.request.subresource,
            now=self.now,
            force=self.options.force,
        )


def run_admission(
    plugins: Sequence[AdmissionPlugin], attributes: AdmissionAttributes, new: Document | None, old: Document | None
) -> Document | None:
    """Runs the plugins that handle the resource, in order; returns the object as they changed it."""
    resource = attributes.served.resource.group_resource
    for plugin in plugins:
        if plugin.resources is None or resource in plugin.resources:
            new = plugin.admit(attributes, new, old)
    return new


def with_metadata(document: Document, **fields: Any) -> Document:
    """Sets these fields of the metadata; None removes a field."""
    metadata = {**document["metadata"], **fields}
    return {**document, "metadata": {key: value for key, value in metadata.items() if value is not None}}


def without_system_fields(document: Document) -> Document:
    """Removes the metadata fields that only the server sets."""
    metadata = document["metadata"]
    if SYSTEM_FIELDS.isdisjoint(metadata):
        return document
    kept = {key: value for key, value in metadata.items() if key not in SYSTEM_FIELDS}
    return {**document, "metadata": kept}


def in_namespace(document: Document, namespace: str) -> Document:
    """Puts the document into the request's namespace (empty for cluster scope); BadRequest if it names another."""
    named = document["metadata"].get("namespace", "")
    if named == namespace:
        return document
    if named and namespace:
        raise namespace_mismatch()
    return with_metadata(document, namespace=namespace or None)


def without_repeated_owners(document: Document, *, when: str = "") -> tuple[Document, tuple[str, ...]]:
    """Removes duplicate owner references; returns a warning if there were any."""
    owners = document["metadata"].get("ownerReferences", ())
    if len(owners) < 2:
        return document, ()
    # Compared by their JSON text, so that the cost stays linear.
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
    """Restores what an update cannot change: creation and deletion times, and the UID if the update has none."""
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
    """Validates the name of a new object of any kind. The kind's own rules validate the rest of its metadata."""
    metadata = document["metadata"]
    return [
        *each_invalid("metadata.generateName", prefix := metadata.get("generateName", ""), path_segment_errors(prefix)),
        *each_invalid("metadata.name", name := metadata.get("name", ""), path_segment_errors(name)),
    ]


def update_errors(new: Document, old: Document, *, namespaced: bool) -> list[FieldError]:
    """Validates the metadata of an updated object of any kind, if it changed."""
    after, before = new["metadata"], old["metadata"]
    if after.keys() - _SERVER_FIELDS == before.keys() - _SERVER_FIELDS and all(
        after[name] == before[name] for name in after if name not in _SERVER_FIELDS
    ):
        return []
    errors = generic_metadata_errors(after, name_rule=path_segment_errors, namespaced=namespaced)
    return errors + metadata_update_errors(after, before)


def path_segment_errors(name: str) -> list[str]:
    """Validates that a name can be a path segment."""
    if name in {".", ".."}:
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in name]


def has_nothing_left(new: Document, old: Document) -> bool:
    """Whether an update completes a pending deletion: no finalizer and no grace period is left."""
    before = old["metadata"]
    if new["metadata"].get("finalizers") or before.get("deletionTimestamp") is None:
        return False
    if new["kind"] == "Namespace" and new.get("spec", {}).get("finalizers"):
        return False
    return not before.get("deletionGracePeriodSeconds")
