"""RequestReviews: what webhooks said about one request, at hand for the store's decision.

The store decides a write at once, on the newest state, and a decision cannot wait. A decision that needs a webhook's
answer therefore raises ReviewNeeded. `reviewed` calls the webhooks and has the write decided again, with the answers at
hand. If the object changed meanwhile, the answers are of no use and the webhooks are called for the new state; upstream
calls them again for each try of an update, too.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/update.go,
staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/plugin.go
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from pykubelet.api.errors import Timeout
from pykubelet.api.serializer import Document
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.webhook.dispatcher import AdmissionWebhooks, WebhookCall

T = TypeVar("T")
MAX_REVIEWS = 100
"""A write needs two, and two more for each change of the object meanwhile."""
RunPlugins = Callable[[AdmissionAttributes, Document | None, Document | None], Document | None]
_Key = tuple[str, str, str, str, str]


class ReviewNeeded(Exception):
    """A decision needs the answers of webhooks; `review` gets them."""

    def __init__(self, review: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.review = review


async def reviewed(run: Callable[[], Awaitable[T]]) -> T:
    """Runs something that decides a write, as often as its decision needs answers of webhooks."""
    for _ in range(MAX_REVIEWS):
        try:
            return await run()
        except ReviewNeeded as needed:
            review = needed.review
        await review()
    raise Timeout("request did not complete within requested timeout")


class _Answer(NamedTuple):
    """What was asked about, and the object that the webhooks want instead."""

    new: Document | None
    old: Document | None
    result: Document | None


class RequestReviews:
    """The answers of webhooks for the decisions of one request."""

    def __init__(self, webhooks: AdmissionWebhooks) -> None:
        self._webhooks = webhooks
        self._admitted: dict[_Key, _Answer] = {}
        self._validated: dict[_Key, _Answer] = {}

    def admit(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None, run: RunPlugins
    ) -> Document | None:
        """Runs the server's own admission and then the mutating webhooks."""
        key, webhooks = _key(attributes), self._webhooks
        known = self._admitted.get(key)
        again = replace(attributes, is_reinvoked=True)
        if known is not None and (known.new, known.old) == (new, old):
            # The server's own rules hold for what is stored, whatever the webhooks made of it.
            return run(again, known.result, old)
        admitted = run(attributes, new, old)
        if not webhooks.calls(webhooks.configurations.mutating, attributes, admitted, old):
            return admitted

        def run_again(changed: Document) -> Document:
            result = run(again, changed, old)
            assert result is not None
            return result

        async def review() -> None:
            result = await webhooks.mutate(attributes, admitted, old, run_again)
            self._admitted[key] = _Answer(new, old, result)

        raise ReviewNeeded(review)

    def validate(self, attributes: AdmissionAttributes, new: Document | None, old: Document | None) -> None:
        """Has the validating webhooks look at what would be stored."""
        key, webhooks = _key(attributes), self._webhooks
        known = self._validated.get(key)
        if known is not None and (known.new, known.old) == (new, old):
            return
        calls: list[WebhookCall] = webhooks.calls(webhooks.configurations.validating, attributes, new, old)
        if not calls:
            return

        async def review() -> None:
            await webhooks.validate(attributes, calls, new, old)
            self._validated[key] = _Answer(new, old, None)

        raise ReviewNeeded(review)


def _key(attributes: AdmissionAttributes) -> _Key:
    served = attributes.served.resource.group_resource
    return (attributes.verb, served, attributes.subresource, attributes.namespace, attributes.name)
