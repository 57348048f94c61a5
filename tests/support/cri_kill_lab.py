"""The kill -9 tests on containerd: containers are identified by their host PIDs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from containerd_lab import ContainerdLab
from cri_lab import node_runtime
from kill_lab import FOR_EVER, KillLab, Program, kill
from process_cluster import NODE
from pykubelet.runtimes.process.shim.processes import stat_fields
from pykubelet_process import NodeProcess

_LEDGERS = "ledgers"


class CriKillLab(KillLab):
    """A kill lab whose containers run on containerd."""

    def __init__(self, folder: Path, containerd: ContainerdLab) -> None:
        super().__init__(folder, node_runtime(containerd))
        self._containerd = containerd

    def container(self, pod_name: str, script: str = FOR_EVER, name: str = "main", **fields: Any) -> dict[str, Any]:
        mounts = [*fields.pop("volumeMounts", ()), {"name": _LEDGERS, "mountPath": str(self.ledgers)}]
        return super().container(pod_name, script, name, volumeMounts=mounts, **fields)

    def pod(self, name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        volumes = [*spec.pop("volumes", ()), {"name": _LEDGERS, "hostPath": {"path": str(self.ledgers)}}]
        return super().pod(name, *containers, hostPID=True, volumes=volumes, **spec)

    def programs(self, node: NodeProcess) -> tuple[Program, ...]:
        return self._containerd, *super().programs(node)

    def given_up_starts(self) -> int:
        # The program of a failed start may have run for a moment.
        lines = self._containerd.log.read_text().splitlines()
        return sum("StartContainer" in line and "failed" in line for line in lines)

    def wrong_helpers(self, running: Mapping[int, str]) -> list[str]:
        pods = sorted(set(running.values()))
        sandboxes = sorted(name.removesuffix(f"-{NODE}") for name in self._containerd.ready_sandboxes())
        return [] if sandboxes == pods else [f"sandboxes of {sandboxes}, not of {pods}"]

    def kill_supervisors(self, *names: str) -> None:
        for start in (start for name in names for start in self.starts(name)):
            if start.is_alive:
                kill(int(stat_fields(start.pid)[1]))
