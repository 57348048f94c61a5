"""How many pods may be disrupted at once: the status of disruption budgets."""

from pykubelet.controllers.disruption.controller import DisruptionController
from pykubelet.controllers.disruption.scales import Scales
from pykubelet.controllers.disruption.stale_conditions import StaleDisruptions

__all__ = ["DisruptionController", "Scales", "StaleDisruptions"]
