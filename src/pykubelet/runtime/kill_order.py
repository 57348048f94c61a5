"""In what order the containers of a pod end: sidecars after all others, the last of them first.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_termination_order.go
"""

from collections.abc import Collection, Mapping

from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import is_restartable_init_container


def waits_for(pod: Pod, running: Collection[str]) -> Mapping[str, frozenset[str]]:
    """For each sidecar that runs, the running containers that must have ended before it is told to."""
    sidecars = [one.name for one in pod.spec.init_containers if is_restartable_init_container(one)]
    regular = [one.name for one in pod.spec.containers]
    return {
        name: frozenset(running).intersection((*regular, *sidecars[index + 1 :]))
        for index, name in enumerate(sidecars)
        if name in running
    }
