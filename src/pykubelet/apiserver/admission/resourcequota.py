"""ResourceQuota: rejects what exceeds a quota of its namespace, and charges the rest to the quotas.

The charge goes to `status.used`, in the same transaction as the object. So concurrent creations never exceed a quota,
and one that fails charges nothing. Only the resources in a quota's status are limited: the controller copies them there
from its spec, with what the existing objects use. The cost depends on the quotas of the namespace, not on its objects.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/admission.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/resource_access.go
"""

from dataclasses import dataclass
from datetime import datetime

from pykubelet.aio.clock import Clock
from pykubelet.api.schema import RESOURCE_QUOTAS
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.errors import forbidden
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.kinds.quota.amounts import (
    Amounts,
    added,
    increase,
    masked,
    names_shown,
    read_amounts,
    shown,
    written_amounts,
)
from pykubelet.kinds.quota.evaluators import QuotaEvaluator, evaluator_of


class QuotaAdmission:
    """The admission plugin; it must be the last one, as what it charges is stored if nothing else rejects the write."""

    def __init__(self, store: DurableStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def validate(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> None:
        """Charges the object to the quotas of its namespace; Forbidden if one does not allow it."""
        resource = attributes.served.resource
        entries = (
            self._store.list(RESOURCE_QUOTAS.group_resource, attributes.namespace).entries
            if resource.namespaced
            else ()
        )
        evaluator = evaluator_of(resource.group_resource) if entries else None
        if new is None or evaluator is None or not evaluator.handles(attributes.subresource, new, old):
            return
        # A quota may have been charged by a write that is not committed yet, or deleted.
        quotas = {entry.key: found.document for entry in entries if (found := self._store.newest(entry.key))}
        may_exceed = attributes.subresource == "status"
        request = QuotaRequest(evaluator, new, old, self._clock.now(), may_exceed=may_exceed)
        try:
            charged = {key: request.charge(quota) for key, quota in quotas.items()}
        except QuotaExceededError as error:
            raise forbidden(resource, attributes.name, str(error)) from error
        if not attributes.dry_run:
            for key, used in charged.items():
                if used is not None:
                    quota = quotas[key]
                    self._store.join(key, {**quota, "status": {**quota["status"], "used": written_amounts(used)}})


class QuotaExceededError(Exception):
    """The object does not fit into a quota, or is not what the quota requires; the message is Kubernetes' own."""


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """One write to charge: the object, its state before the write, and the time of the write."""

    evaluator: QuotaEvaluator
    new: Document
    old: Document | None
    now: datetime
    may_exceed: bool = False
    """Whether the write reports what was used already, and so cannot be rejected."""

    def charge(self, quota: Document) -> Amounts | None:
        """The used amounts of the quota after the write, None if they stay; QuotaExceededError."""
        name, status = quota["metadata"]["name"], quota.get("status") or {}
        hard, used = read_amounts(status.get("hard")), read_amounts(status.get("used"))
        limited = self.evaluator.covered(hard)
        if not limited or not self.evaluator.is_in_scopes(quota, self.new):
            return None
        if problem := self.evaluator.missing(limited, self.new):
            raise QuotaExceededError(f"failed quota: {name}: {problem}")
        if not limited <= used.keys():
            raise QuotaExceededError(f"status unknown for quota: {name}, resources: {names_shown(limited)}")
        requested = masked(self._increase(quota), hard.keys())
        if not requested:
            return None
        total = added(used, requested)
        exceeded = [each for each in requested if total[each] > hard[each]]
        if exceeded and not self.may_exceed:
            requested, used, hard = (masked(amounts, exceeded) for amounts in (requested, used, hard))
            raise QuotaExceededError(
                f"exceeded quota: {name}, requested: {shown(requested)}, used: {shown(used)}, limited: {shown(hard)}"
            )
        return total

    def _increase(self, quota: Document) -> Amounts:
        """What the write adds to the usage of a quota, which has not counted an object that was outside its scopes."""
        usage = self.evaluator.usage(self.new, self.now)
        was_counted = self.old is not None and self.evaluator.is_in_scopes(quota, self.old)
        return increase(usage, self.evaluator.usage(self.old, self.now) if was_counted and self.old else {})
