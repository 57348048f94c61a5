"""What the verbs work with, and what they have to know of one write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.api.times import format_time
from pykubelet.api.wire import Document
from pykubelet.apiserver.admission import Admission, Request, admitted
from pykubelet.apiserver.auth.refusal import not_allowed
from pykubelet.apiserver.call import Call, Decision, Review
from pykubelet.apiserver.fields.manage import record
from pykubelet.apiserver.fields.owners import manager_name
from pykubelet.apiserver.requests.bodies import Expected
from pykubelet.apiserver.requests.query import WriteOptions
from pykubelet.apiserver.served import Served
from pykubelet.apiserver.store import Store
from pykubelet.apiserver.verbs.field_schemas import FieldSchemas

_ALLOWED = Decision(allowed=True)


def allow_all(_review: Review) -> Decision:
    """For a server that only its own process can reach."""
    return _ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """The server's parts."""

    store: Store
    clock: Clock
    ids: Ids
    schemas: FieldSchemas
    admission: Sequence[Admission] = ()
    authorize: Callable[[Review], Decision] = allow_all


@dataclass(slots=True)
class Writing:
    """One write under way: what was asked for, how, and what its sender is to be warned of."""

    call: Call
    options: WriteOptions

    @property
    def served(self) -> Served:
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
        means: Means,
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
        request = Request(
            user=call.user,
            verb=verb,
            served=call.served,
            namespace=name if is_namespace else self.namespace,
            name=name,
            subresource=call.subresource,
            dry_run=self.options.dry_run,
        )
        return admitted(means.admission, request, new, old)

    def check_creation(self, means: Means) -> None:
        """Forbidden if the sender may change such an object, but not create one."""
        call, resource = self.call, self.served.resource
        review = Review(
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
            raise not_allowed(review, decision)

    def recorded(self, means: Means, new: Document, live: Document | None) -> Document:
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


def expected_of(served: Served) -> Expected:
    """The kind that a body sent to a resource must be of."""
    resource = served.resource
    return Expected(resource.api_version, resource.kind, served.definition)
