"""The rules of the kinds of the smaller groups: policy, RBAC, networking and more.

Upstream: pkg/registry
"""

from pykubelet.apiserver.served import Strategy
from pykubelet.apiserver.strategies import (
    access,
    autoscaling,
    endpoint_slices,
    ingresses,
    network_policies,
    policy,
    runtime_classes,
    scheduling,
    storage_classes,
)

STRATEGIES: dict[str, Strategy] = {
    **access.STRATEGIES,
    **autoscaling.STRATEGIES,
    **endpoint_slices.STRATEGIES,
    **ingresses.STRATEGIES,
    **network_policies.STRATEGIES,
    **policy.STRATEGIES,
    **runtime_classes.STRATEGIES,
    **scheduling.STRATEGIES,
    **storage_classes.STRATEGIES,
}
"""By group resource, such as `roles.rbac.authorization.k8s.io`."""
