"""Where on disk the things of a pod are.

    <root>/pods/<uid>/etc-hosts                                        its hosts file
                      containers/<container>/<attempt>                 termination messages
                      plugins/                                         nothing of ours; upstream makes it
                      volume-subpaths/<volume>/<container>/<index>     parts of volumes, bound there to be mounted
                      volumes/<plugin>/<name>                          its volumes, `/` in a plugin's name as `~`

Every name on the way comes from outside, so each is checked to be one: no path leads out of the pod's folder.

Upstream: pkg/kubelet/kubelet_getters.go
"""

from typing import NamedTuple

VOLUMES = "volumes"
SUB_PATHS = "volume-subpaths"
CONTAINERS = "containers"
PLUGINS = "plugins"


def pods_dir(root: str) -> str:
    """Where all pods are."""
    return f"{root}/pods"


def is_one_name(text: str) -> bool:
    """Whether the text can be the name of a file: not empty, no way up, no way down."""
    return text not in {"", ".", ".."} and "/" not in text and "\0" not in text


class PodDir(NamedTuple):
    """The folder of one pod."""

    path: str

    @property
    def hosts_file(self) -> str:
        return f"{self.path}/etc-hosts"

    @property
    def termination_files(self) -> str:
        """The folder of all that containers write their last words into."""
        return f"{self.path}/{CONTAINERS}"

    @property
    def volumes(self) -> str:
        return f"{self.path}/{VOLUMES}"

    @property
    def sub_paths(self) -> str:
        return f"{self.path}/{SUB_PATHS}"

    def volume(self, plugin: str, name: str) -> str:
        """Where a volume of a plugin is."""
        return f"{self.volumes}/{_name(plugin.replace('/', '~'))}/{_name(name)}"

    def sub_path(self, volume: str, container: str, index: int) -> str:
        """Where the part of a volume that a container mounts, as its how-manieth mount, is bound."""
        return f"{self.sub_paths}/{_name(volume)}/{_name(container)}/{index}"

    def termination_file(self, container: str, attempt: int) -> str:
        """What a container writes its last words into."""
        return f"{self.termination_files}/{_name(container)}/{attempt}"


def pod_dir(root: str, uid: str) -> PodDir:
    """The folder of a pod; OSError if the UID is no name, likewise for all other names here."""
    return PodDir(f"{pods_dir(root)}/{_name(uid)}")


def _name(text: str) -> str:
    if not is_one_name(text):
        raise OSError(f"{text!r} is not a name that a file can have")
    return text
