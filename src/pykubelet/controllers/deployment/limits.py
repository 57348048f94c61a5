"""How many pods a Deployment wants, may have above that, and may lack meanwhile.

Pure. Upstream: MaxSurge, MaxUnavailable and ResolveFenceposts in pkg/controller/deployment/util/deployment_util.go.
"""

from pykubelet.api.generated.apps import Deployment, RollingUpdateDeployment
from pykubelet.controllers.int_or_percent import scaled_count

RECREATE = "Recreate"
ROLLING_UPDATE = "RollingUpdate"


def desired_replicas(deployment: Deployment) -> int:
    """How many pods there are to be; 1 is the API's default."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def max_surge(deployment: Deployment) -> int:
    """How many pods there may be above what is wanted, while one version replaces another."""
    return _bounds(deployment)[0]


def max_unavailable(deployment: Deployment) -> int:
    """How many of the wanted pods may be unavailable."""
    return min(_bounds(deployment)[1], desired_replicas(deployment))


def min_available(deployment: Deployment) -> int:
    """How many pods have to be available at any time."""
    return desired_replicas(deployment) - max_unavailable(deployment)


def max_replicas(deployment: Deployment) -> int:
    """How many pods there may be at any time."""
    return desired_replicas(deployment) + max_surge(deployment)


def _bounds(deployment: Deployment) -> tuple[int, int]:
    """Surge and unavailable pods; one of them is above zero, for otherwise nothing could ever move."""
    if deployment.spec.strategy.type != ROLLING_UPDATE:
        return 0, 0
    rolling, desired = (
        deployment.spec.strategy.rolling_update or RollingUpdateDeployment(),
        desired_replicas(deployment),
    )
    surge = scaled_count(rolling.max_surge or 0, desired, round_up=True)
    unavailable = scaled_count(rolling.max_unavailable or 0, desired, round_up=False)
    # Rounded down to nothing. Unavailable pods always work, while a quota may forbid additional ones.
    return (0, 1) if surge == unavailable == 0 else (surge, unavailable)
