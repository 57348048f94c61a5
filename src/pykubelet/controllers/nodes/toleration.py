"""How long a pod may stay on a node with these taints.

Pure. Upstream: GetMatchingTolerations in k8s.io/component-helpers/scheduling/corev1, getMinTolerationTime in
pkg/controller/tainteviction/taint_eviction.go.
"""

import math
from collections.abc import Iterable, Sequence

from pykubelet.api.generated.core import Node, Taint, Toleration
from pykubelet.api.node_fit import is_tolerated


def evicting_taints(node: Node) -> tuple[Taint, ...]:
    """The taints of a node that send pods away."""
    return tuple(taint for taint in node.spec.taints if taint.effect == "NoExecute")


def seconds_to_stay(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> float:
    """The seconds from the moment the taints came; infinite if the pod may stay for ever.

    Of several tolerations of a taint the first counts, of several taints the one that is tolerated shortest.
    """
    longest = math.inf
    for taint in taints:
        used = next((each for each in tolerations if is_tolerated(taint, (each,))), None)
        if used is None:
            return 0.0
        if used.toleration_seconds is not None:
            longest = min(longest, max(float(used.toleration_seconds), 0.0))
    return longest
