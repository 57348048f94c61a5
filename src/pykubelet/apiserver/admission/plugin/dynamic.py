"""DynamicAdmission: the part of admission that objects of the API configure.

Upstream: staging/src/k8s.io/apiserver/pkg/server/plugins.go
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pykubelet.apiserver.admission.interfaces import ValidatePlugin
from pykubelet.apiserver.admission.plugin.webhook.dispatcher import AdmissionWebhooks
from pykubelet.apiserver.admission.plugin.webhook.reviews import RequestReviews


@dataclass(frozen=True, slots=True)
class DynamicAdmission:
    """What looks at writes after the kind's own rules, and the webhooks of both types."""

    validation: Sequence[ValidatePlugin] = ()
    webhooks: AdmissionWebhooks | None = None

    def reviews(self) -> RequestReviews | None:
        """What a request needs to be reviewed by webhooks; None if there are none."""
        webhooks = self.webhooks
        return None if webhooks is None or not webhooks.is_configured else RequestReviews(webhooks)
