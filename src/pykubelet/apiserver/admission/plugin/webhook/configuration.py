"""The webhooks that are configured now, in the order in which they are called.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/configuration/mutating_webhook_manager.go,
staging/src/k8s.io/apiserver/pkg/admission/configuration/validating_webhook_manager.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/accessors.go
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pykubelet.api.cel.admission import AdmissionExpression
from pykubelet.api.schema import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.plugin.webhook.matchconditions import compile_conditions
from pykubelet.apiserver.admission.plugin.webhook.predicates import MatchCriteria
from pykubelet.apiserver.storage.interfaces import Store, StoreChange
from pykubelet.apiserver.webhook_client import WebhookTarget

ADMIT, VALIDATING = "admit", "validating"
"""The types of webhooks, as metrics name them."""
_WITHOUT_SIDE_EFFECTS = frozenset({"None", "NoneOnDryRun"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One webhook of a configuration."""

    type: str
    configuration: str
    name: str
    target: WebhookTarget
    criteria: MatchCriteria
    conditions: tuple[AdmissionExpression, ...]
    fails: bool
    """Whether a request fails if the webhook cannot be called."""
    seconds: int | None
    may_dry_run: bool
    reinvocable: bool
    versions: tuple[str, ...]
    """The versions of AdmissionReview that it understands, the best first."""

    @classmethod
    def of(cls, type_: str, configuration: str, stated: Document) -> "Webhook":
        return cls(
            type=type_,
            configuration=configuration,
            name=stated["name"],
            target=WebhookTarget.of(stated["clientConfig"]),
            criteria=MatchCriteria.of(stated),
            conditions=compile_conditions(stated.get("matchConditions") or ()),
            fails=stated.get("failurePolicy") != "Ignore",
            seconds=stated.get("timeoutSeconds"),
            may_dry_run=stated.get("sideEffects") in _WITHOUT_SIDE_EFFECTS,
            reinvocable=stated.get("reinvocationPolicy") == "IfNeeded",
            versions=tuple(stated.get("admissionReviewVersions") or ()),
        )


class WebhookConfigurations:
    """The configured webhooks, as of the last committed change.

    The store reports a change before the request that made it is answered, so the next request meets it.
    `forget` gets the targets of webhooks that changed or are gone.
    """

    def __init__(self, store: Store, forget: Callable[[WebhookTarget], None]) -> None:
        self._forget = forget
        self._by_name: dict[str, dict[str, tuple[Webhook, ...]]] = {ADMIT: {}, VALIDATING: {}}
        self.mutating: tuple[Webhook, ...] = ()
        self.validating: tuple[Webhook, ...] = ()
        for type_, resource in (
            (ADMIT, MUTATING_WEBHOOK_CONFIGURATIONS),
            (VALIDATING, VALIDATING_WEBHOOK_CONFIGURATIONS),
        ):
            for entry in store.list(resource.group_resource).entries:
                self._set(type_, entry.key.name, entry.document)
            store.listen(resource.group_resource, self._listener(type_))

    def _listener(self, type_: str) -> Callable[[StoreChange], None]:
        return lambda change: self._set(type_, change.key.name, None if change.after is None else change.document)

    def _set(self, type_: str, name: str, document: Document | None) -> None:
        known = self._by_name[type_]
        for webhook in known.pop(name, ()):
            self._forget(webhook.target)
        if document is not None:
            known[name] = tuple(Webhook.of(type_, name, one) for one in document.get("webhooks") or ())
        self.mutating, self.validating = _in_order(self._by_name[ADMIT]), _in_order(self._by_name[VALIDATING])


def _in_order(by_name: dict[str, tuple[Webhook, ...]]) -> tuple[Webhook, ...]:
    lists: Iterable[tuple[Webhook, ...]] = (by_name[name] for name in sorted(by_name))
    return tuple(webhook for webhooks in lists for webhook in webhooks)
