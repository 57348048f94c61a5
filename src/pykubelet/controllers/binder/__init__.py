"""Puts pods on nodes: a small scheduler, named `default-scheduler`.

`binder.py` acts; what it decides is decided by pure files: `decision.py` over `filters.py` and `scores.py`, on the
`ClusterView`. Upstream: pkg/scheduler with its default plugins.

What upstream has and this has not: preemption (a pod that does not fit waits, whatever its priority), volumes and
resource claims, spread constraints for pods that bring none, samples of the nodes in large clusters.
"""

from pykubelet.controllers.binder.binder import SCHEDULER_NAME, Binder

__all__ = ["SCHEDULER_NAME", "Binder"]
