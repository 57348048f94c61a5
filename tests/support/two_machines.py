"""A cluster of two machines, each a network namespace: `up --bind` on one, a node that joins it on the other.

Use it inside `TwoMachines.first.inside()`, so that kubectl and connections of the test are made on the first machine.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubectl import Kubectl
from network_lab import Namespace, require_root_and_nft
from process_lab import end_containers, unmount_below
from pykubelet_process import PykubeletProcess, UpProcess

FIRST_IP, SECOND_IP = "10.77.0.1", "10.77.0.2"
_OWN_NETWORKS = ("--pod-network", "own", "--runtime", "process")


class FirstMachine(UpProcess):
    """`pykubelet up --bind` with the service proxy."""

    def __init__(self, folder: Path, namespace: Namespace, *options: str) -> None:
        super().__init__(folder, "--bind", FIRST_IP, "--pod-network", "own", *options, name="first")
        self._namespace = namespace

    def wrapper(self) -> list[str]:
        return self._namespace.enter

    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--no-service-proxy"]


class JoinedMachine(PykubeletProcess):
    """A node that joins with the options of the printed command."""

    def __init__(self, folder: Path, namespace: Namespace, join: Sequence[str], *, name: str = "second") -> None:
        super().__init__()
        self.root, self.join, self.name = folder / "node", list(join), name
        self._namespace = namespace

    def wrapper(self) -> list[str]:
        return self._namespace.enter

    def command(self) -> list[str]:
        options = ["--node-name", self.name, "--root-dir", str(self.root), "--no-page", *_OWN_NETWORKS]
        return [*self.join, *options, "--eviction-hard", "memory.available<1Mi"]

    def start(self) -> "JoinedMachine":
        """Start it and wait until it is ready."""
        assert self.start_up() == f"node {self.name}"
        return self


class TwoMachines:
    """Two namespaces with one link between them, the cluster on the first, and kubectl."""

    def __init__(self, folder: Path) -> None:
        require_root_and_nft()
        self.folder = folder
        self.first, self.second = Namespace(), Namespace()
        self.first.ip(
            f"link add lan0 type veth peer name lan0 netns {self.second.pid}",
            f"addr add {FIRST_IP}/24 dev lan0",
            "link set lan0 up",
            # Addresses of Services need some route, as every machine has one.
            "link add far0 type veth peer name far1",
            "addr add 198.51.100.1/24 dev far0",
            "link set far0 up",
            "link set far1 up",
            "route add default via 198.51.100.2",
        )
        self.second.ip(
            f"addr add {SECOND_IP}/24 dev lan0", "link set lan0 up", f"route add default via {FIRST_IP} dev lan0"
        )
        self.up = FirstMachine(folder / "first", self.first)
        self.kubectl = Kubectl(self.up.kubeconfig, "default", folder / "cache")
        self.nodes: list[JoinedMachine] = []

    def close(self) -> None:
        for program in (self.up, *self.nodes):
            if program.is_running:
                program.kill()
        for root in (self.up.data / "node", *(node.root for node in self.nodes)):
            if (root / "process").exists():
                end_containers(root / "process")
        unmount_below(self.folder)
        for namespace in (self.first, self.second):
            namespace.close()

    def join_command(self, *options: str) -> list[str]:
        """The words after `pykubelet` of the command that `token create` prints."""
        command = [sys.executable, "-m", "pykubelet", "token", "create", "--kubeconfig", str(self.up.kubeconfig)]
        done = subprocess.run(
            [*self.first.enter, *command, "--print-join-command", *options], capture_output=True, text=True, check=True
        )
        words = shlex.split(done.stdout)
        assert words[0] == "pykubelet"
        return words[1:]

    def node(self, join: Sequence[str], *, name: str = "second") -> JoinedMachine:
        """A node of the second machine, not started yet."""
        made = JoinedMachine(self.folder / name, self.second, join, name=name)
        self.nodes.append(made)
        return made

    def apply(self, *documents: dict[str, Any]) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": documents}
        self.kubectl("apply", "-f", "-", text=json.dumps(items))
