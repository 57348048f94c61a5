"""Where the logs of containers are, and whose they are, judged by their names.

`<root>/<namespace>_<name>_<uid>/<container>/<attempt>.log`, and for collectors that know no pods a link
`<name>_<namespace>_<container>-<id>.log` to it.

Upstream: pkg/kubelet/kuberuntime/{helpers,legacy}.go
"""

from typing import NamedTuple

from pykubelet.api.generated.core import Pod
from pykubelet.api.keys import PodUid
from pykubelet.runtime.protocol import RuntimePod

# The longest name a file may have.
_LONGEST_NAME = 255
_LINK_SUFFIX = ".log"


class PodNames(NamedTuple):
    """What tells a pod from all others, in words for people and machines."""

    namespace: str
    name: str
    uid: str


def pod_names(pod: Pod | RuntimePod) -> PodNames:
    """The names of a pod, wanted or running."""
    if isinstance(pod, RuntimePod):
        return PodNames(pod.namespace, pod.name, pod.uid)
    return PodNames(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


def pod_log_directory(root: str, pod: PodNames) -> str:
    """Where all logs of a pod are."""
    return f"{root}/{pod.namespace}_{pod.name}_{pod.uid}"


def container_log_path(root: str, pod: PodNames, container: str, attempt: int) -> str:
    """The log of one container."""
    return f"{pod_log_directory(root, pod)}/{container}/{attempt}.log"


def uid_of_directory(name: str) -> PodUid:
    """The pod whose logs a directory of this name holds; older nodes named it by the UID alone."""
    return PodUid(name.rpartition("_")[2])


def log_link_name(pod: PodNames, container: str, container_id: str) -> str:
    """The name of the link to a container's log."""
    name = f"{pod.name}_{pod.namespace}_{container}-{container_id}"
    return name[: _LONGEST_NAME - len(_LINK_SUFFIX)] + _LINK_SUFFIX


def id_of_link(name: str) -> str:
    """The container a link of this name leads to; empty if the name does not tell."""
    container_id = name.removesuffix(_LINK_SUFFIX).rpartition("-")[2]
    is_told = name.endswith(_LINK_SUFFIX) and len(container_id) >= 6
    return container_id if is_told else ""
