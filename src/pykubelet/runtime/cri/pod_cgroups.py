"""Makes the cgroups of pods, and takes them away; those of containers are the runtime's.

Only where the runtime makes cgroups as plain folders: with systemd they come and go by themselves.
Upstream: pkg/kubelet/cm/pod_container_manager_linux.go
"""

from contextlib import suppress
from pathlib import Path

from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.runtime.cri.cgroup_names import CGROUPFS, pod_cgroup, possible_cgroups
from pykubelet.runtime.cri.facts import Machine
from pykubelet.runtime.cri.pod_limits import CgroupValue, pod_values

log = get_logger(__name__)

_CGROUPS = Path("/sys/fs/cgroup")


class PodCgroups:
    """Cgroups of pods, below `mounted`. Everything here blocks for a moment."""

    def __init__(self, machine: Machine, mounted: Path = _CGROUPS) -> None:
        self._machine, self._mounted = machine, mounted

    def make(self, pod: Pod) -> None:
        """Make a pod's cgroup with its limits. Where that cannot be, containers still have theirs, so it is only told."""
        if self._machine.cgroup_driver != CGROUPFS:
            return
        path = pod_cgroup(pod, driver=CGROUPFS, root=self._machine.cgroup_root)
        try:
            for controller, file, value in self._values(pod):
                cgroup = self._cgroup(controller, path)
                self._make_folders(cgroup)
                (cgroup / file).write_text(value)
        except OSError as error:
            log.warning("limits of a pod are not set", cgroup=path, cause=str(error))

    def _values(self, pod: Pod) -> list[CgroupValue]:
        machine = self._machine
        return pod_values(pod, has_cgroup_v2=machine.has_cgroup_v2, max_pids=machine.max_pids)

    def remove(self, uid: str) -> None:
        """Take away what is empty of a pod's cgroup, in all hierarchies."""
        if self._machine.cgroup_driver != CGROUPFS:
            return
        hierarchies = [self._mounted] if self._machine.has_cgroup_v2 else [*self._mounted.iterdir()]
        for path in possible_cgroups(uid, driver=CGROUPFS, root=self._machine.cgroup_root):
            for hierarchy in hierarchies:
                # Not there, or somebody is still in it.
                with suppress(OSError):
                    Path(f"{hierarchy}{path}").rmdir()

    def _cgroup(self, controller: str, path: str) -> Path:
        return Path(f"{self._mounted / controller}{path}")

    def _make_folders(self, cgroup: Path) -> None:
        """All folders down to it; in the newer hierarchy each must hand on its controllers."""
        cgroup.mkdir(parents=True, exist_ok=True)
        if self._machine.has_cgroup_v2:
            above = [one for one in cgroup.parents if one.is_relative_to(self._mounted)]
            for folder in reversed(above):
                for controller in ("cpu", "memory", "pids"):
                    (folder / "cgroup.subtree_control").write_text(f"+{controller}")
