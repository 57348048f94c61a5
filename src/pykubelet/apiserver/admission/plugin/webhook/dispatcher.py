"""AdmissionWebhooks: calls the webhooks that a write matches, and applies what they answer.

Mutating webhooks are called one after the other, validating ones at the same time. A mutating webhook with the
reinvocation policy IfNeeded is called once more if something after it changed the object.

Upstream: staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/dispatcher.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import Ids
from pykubelet.aio.log import get_logger
from pykubelet.api.errors import ApiError, BadRequest, InternalError
from pykubelet.api.field_errors import go_quote
from pykubelet.api.patch.errors import PatchError
from pykubelet.api.patch.json_patch import apply_json
from pykubelet.api.serializer import Document, encode
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.cel.condition import admission_values
from pykubelet.apiserver.admission.plugin.webhook.configuration import Webhook, WebhookConfigurations
from pykubelet.apiserver.admission.plugin.webhook.matchconditions import MatchConditionError, conditions_match
from pykubelet.apiserver.admission.plugin.webhook.metrics import WebhookMetrics
from pykubelet.apiserver.admission.plugin.webhook.predicates import AdmissionMatcher, Invocation, is_exempt
from pykubelet.apiserver.admission.plugin.webhook.request import admission_request
from pykubelet.apiserver.admission.plugin.webhook.review import (
    AdmissionResponse,
    ReviewError,
    WebhookDenial,
    admission_review,
    read_response,
    review_version,
)
from pykubelet.apiserver.errors import forbidden
from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision
from pykubelet.apiserver.serializer.decoder import ExpectedKind, check_types
from pykubelet.apiserver.serializer.object_size import check_size
from pykubelet.apiserver.storage.codec import served_form, stored_form
from pykubelet.apiserver.webhook_client import WebhookCallError, WebhookClient
from pykubelet.kinds.kind import Kind, as_many_as_sent

log = get_logger(__name__)

_MUTATED = "mutation.webhook.admission.k8s.io/"
_VALIDATED = "validating.webhook.admission.k8s.io/"
Change = Callable[[Document], Document]


class WebhookCall(NamedTuple):
    """A webhook to call, and how it sees the request."""

    webhook: Webhook
    invocation: Invocation


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionWebhooks:
    """The webhooks of this server. `authorize` answers the checks of match conditions."""

    configurations: WebhookConfigurations
    matcher: AdmissionMatcher
    client: WebhookClient
    authorize: Callable[[AuthorizationAttributes], AuthorizationDecision]
    metrics: WebhookMetrics
    clock: Clock
    ids: Ids

    @property
    def is_configured(self) -> bool:
        """Whether there is any webhook; if not, requests take no notice of them."""
        return bool(self.configurations.mutating or self.configurations.validating)

    def calls(
        self, webhooks: Sequence[Webhook], attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> list[WebhookCall]:
        """The webhooks that match a write; Forbidden if a match condition cannot be evaluated."""
        if is_exempt(attributes):
            return []
        found = ((each, self._invocation(each, attributes, new, old)) for each in webhooks)
        return [WebhookCall(each, invocation) for each, invocation in found if invocation is not None]

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None, again: Change
    ) -> Document | None:
        """Returns the object as the webhooks want it; `again` runs the admission before them once more."""
        mutation = _Mutation(self, attributes, old)
        changed = await mutation.round(0, new)
        if changed is None or not mutation.is_changed:
            return changed
        result = again(changed)
        mutation.prepare_reinvocation(is_changed=result != changed)
        return await mutation.round(1, result)

    async def validate(
        self, attributes: AdmissionAttributes, calls: Sequence[WebhookCall], new: Document | None, old: Document | None
    ) -> None:
        """Calls validating webhooks; raises the first one's error, in their order."""
        asked = [self._validate(index, call, attributes, new, old) for index, call in enumerate(calls)]
        for result in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _validate(
        self,
        index: int,
        call: WebhookCall,
        attributes: AdmissionAttributes,
        new: Document | None,
        old: Document | None,
    ) -> None:
        if await self.ask(call, attributes, new, old) is None:
            attributes.annotate(f"failed-open.{_VALIDATED}round_0_index_{index}", call.webhook.name)

    async def ask(
        self, call: WebhookCall, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> AdmissionResponse | None:
        """The webhook's answer; None if it cannot be called and that is ignored. Raises ApiError otherwise."""
        webhook, started, code, error_type = call.webhook, self.clock.monotonic(), 200, ""
        operation = attributes.verb.upper()
        try:
            return await self._response(call, attributes, new, old)
        except WebhookDenial as error:
            code, error_type = error.code, "no_error"
            raise
        except (WebhookCallError, ReviewError) as error:
            code = 503
            why = f"{error.stage}: {error}" if isinstance(error, WebhookCallError) else str(error)
            text = f"failed calling webhook {go_quote(webhook.name)}: {why}"
            if not webhook.fails:
                log.warning("failed calling a webhook, failing open", webhook=webhook.name, reason=why)
                self.metrics.failed_open(webhook)
                return None
            error_type = "calling_webhook_error"
            raise internal_error(text) from error
        except ApiError:
            code, error_type = 0, "apiserver_internal_error"
            raise
        finally:
            seconds = self.clock.monotonic() - started
            self.metrics.called(webhook, operation, code, seconds, error_type=error_type)

    async def _response(
        self, call: WebhookCall, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> AdmissionResponse:
        webhook, invocation = call
        if attributes.dry_run and not webhook.may_dry_run:
            raise BadRequest(f"admission webhook {go_quote(webhook.name)} does not support dry run")
        version, uid = review_version(webhook.versions), self.ids.uid()
        review = admission_review(
            version,
            uid,
            admission_request(attributes, invocation),
            _as_seen(new, attributes, invocation),
            _as_seen(old, attributes, invocation),
        )
        answer = await self.client.call(webhook.target, review, seconds=webhook.seconds)
        response = read_response(answer, version, uid, mutating=webhook.type == "admit")
        for key, value in response.audit_annotations.items():
            attributes.annotate(f"{webhook.name}/{key}", value)
        for warning in as_many_as_sent(response.warnings):
            attributes.warn(warning)
        if not response.allowed:
            raise WebhookDenial(webhook.name, response.result)
        return response

    def _invocation(
        self, webhook: Webhook, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Invocation | None:
        found = self.matcher.match(webhook.criteria, attributes, new, old)
        if found is None or not webhook.conditions:
            return found
        values = admission_values(
            attributes,
            admission_request(attributes, found),
            _as_seen(new, attributes, found),
            _as_seen(old, attributes, found),
            authorize=self.authorize,
        )
        try:
            return found if conditions_match(webhook.conditions, values, fails=webhook.fails) else None
        except MatchConditionError as error:
            raise forbidden(attributes.served.resource, attributes.name, str(error)) from error


class _Mutation:
    """The calls of mutating webhooks for one write."""

    def __init__(self, webhooks: AdmissionWebhooks, attributes: AdmissionAttributes, old: Document | None) -> None:
        self._webhooks, self._attributes, self._old = webhooks, attributes, old
        self._hooks = webhooks.configurations.mutating
        self._reinvocable: set[Webhook] = set()
        """Those called before the last change that may be called again."""
        self._required: set[Webhook] = set()
        """Those to call again."""
        self.is_changed = False

    def prepare_reinvocation(self, *, is_changed: bool) -> None:
        """Takes note of whether the admission before the webhooks changed the object, too."""
        if is_changed:
            self._require()

    async def round(self, number: int, new: Document | None) -> Document | None:
        """Calls the webhooks that match, each with the object as the ones before it left it."""
        for index, webhook in enumerate(self._hooks):
            if number and webhook not in self._required:
                continue
            for call in self._webhooks.calls([webhook], self._attributes, new, self._old):
                before = new
                new = await self._called(f"round_{number}_index_{index}", call, new)
                if new is not before and new != before:
                    self.is_changed = True
                    self._require()
                if webhook.reinvocable:
                    self._reinvocable.add(webhook)
        return new

    def _require(self) -> None:
        self._required |= self._reinvocable
        self._reinvocable = set()

    async def _called(self, place: str, call: WebhookCall, new: Document | None) -> Document | None:
        webhook, attributes = call.webhook, self._attributes
        response = await self._webhooks.ask(call, attributes, new, self._old)
        result = new
        if response is None:
            attributes.annotate(f"failed-open.{_MUTATED}{place}", webhook.name)
        elif response.patch is not None:
            result = _patched(call, attributes, new, response)
        facts = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": result != new}
        attributes.annotate(f"{_MUTATED}{place}", encode(facts).decode())
        return result


def internal_error(text: str) -> InternalError:
    """Upstream's error for a failure that is not the client's."""
    return InternalError(f"Internal error occurred: {text}", details={"causes": [{"message": text}]})


def _patched(
    call: WebhookCall, attributes: AdmissionAttributes, new: Document | None, response: AdmissionResponse
) -> Document:
    """The object with a webhook's patch, checked and with its defaults."""
    if new is None:
        name = go_quote(call.webhook.name)
        raise internal_error(
            f"admission webhook {name} attempted to modify the object, which is not supported for this operation"
        )
    seen, served = _as_seen(new, attributes, call.invocation), call.invocation.served
    try:
        patched = apply_json(seen, response.patch)
    except PatchError as error:
        raise internal_error(str(error)) from error
    if not isinstance(patched, dict):
        raise internal_error("json: cannot unmarshal the patched object into an object")
    if not _is_of_resource(attributes, call.invocation):
        return patched
    if not isinstance(patched.get("metadata"), dict):
        patched = {**patched, "metadata": {}}
    check_size(patched)
    try:
        check_types(patched, ExpectedKind.of(served))
        return _as_received(check_size(served.strategy.default(patched)), attributes, served)
    except BadRequest as error:
        raise internal_error(error.message) from error


def _is_of_resource(attributes: AdmissionAttributes, invocation: Invocation) -> bool:
    """Whether the request's object is one of its resource, not a Scale, Binding or the like."""
    return invocation.kind.kind == attributes.served.resource.kind


def _as_seen(document: Document | None, attributes: AdmissionAttributes, invocation: Invocation) -> Document | None:
    """An object of the request in the version that the webhook is for."""
    served = invocation.served
    if document is None or served is attributes.served or not _is_of_resource(attributes, invocation):
        return document
    return served_form(served, stored_form(attributes.served, document))


def _as_received(document: Document, attributes: AdmissionAttributes, served: Kind) -> Document:
    """A changed object in the version of the request again."""
    if served is attributes.served:
        return document
    return served_form(attributes.served, stored_form(served, document))
