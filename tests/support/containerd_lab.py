"""Starts a private containerd with its own folders, socket, network and images, and removes everything afterwards."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from cri_api.v1 import api_pb2 as cri
from cri_api.v1 import api_pb2_grpc

from oci_images import IMAGES, PAUSE, Image, write_archive
from requirements import missing

# Generated without types.
services: Any = api_pb2_grpc

CAP_SYS_RESOURCE = 24
PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
# Debian installs runc in a folder that the PATH of an ordinary user does not include.
PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
CGROUPS = Path("/sys/fs/cgroup")
OTHER_HANDLER = "other"
"""A second way of running containers, no different from the first but for its name."""
ROUTED_PODS = "198.19.255.0/24"
BRIDGE_ADDRESS = "02:00:00:00:00:01"

CONFIG = """\
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
netns_mounts_under_state_dir = true
restrict_oom_score_adj = {restrict_oom_score_adj}
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{folder}/runc"
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{other_handler}]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{other_handler}.options]
Root = "{folder}/runc"
SystemdCgroup = false
"""


@contextmanager
def running_containerd(images: Iterable[Image] = IMAGES, *, has_routed_pods: bool = False) -> Iterator["ContainerdLab"]:
    """A containerd with images, by default those of `oci_images`, in a folder that is removed afterwards.

    Routed pods can use addresses of Services; the CNI plugin then turns on packet forwarding.
    """
    if os.geteuid() != 0:
        missing("containerd needs root")
    # A short path: the path of a Unix socket is limited to about a hundred characters.
    lab = ContainerdLab(Path(tempfile.mkdtemp(prefix="pykubelet-lab-")))
    try:
        lab.set_up(has_routed_pods=has_routed_pods)
        lab.start()
        lab.add_images(images)
        yield lab
    finally:
        lab.remove()


def program(name: str) -> str:
    found = shutil.which(name, path=PATH)
    if found is None:
        missing(f"{name} is not installed")
    return found


class ContainerdLab:
    """One containerd, whose folders survive a kill and a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "containerd.sock"
        self.endpoint = f"unix://{self.socket}"
        self.log = folder / "containerd.log"
        # The folder's name is unique, and so are these.
        self.cgroup_parent = f"/{folder.name}"
        self.bridge = f"lab-{folder.name.rpartition('-')[2]}"
        self._process: subprocess.Popen[bytes] | None = None

    def set_up(self, *, has_routed_pods: bool = False) -> None:
        """Make a network and write the configuration."""
        plugins = next((found for found in PLUGIN_FOLDERS if Path(found, "bridge").exists()), "")
        if not plugins:
            missing("the CNI plugins are not installed")
        plugin = self._routed_network() if has_routed_pods else self._make_bridge()
        network = {"cniVersion": "1.0.0", "name": "lab", "plugins": [plugin]}
        (self.folder / "cni").mkdir()
        (self.folder / "cni/lab.conflist").write_text(json.dumps(network))
        restricted = json.dumps(not may_lower_oom_scores())
        text = CONFIG.format(
            folder=self.folder,
            pause=PAUSE,
            plugins=plugins,
            restrict_oom_score_adj=restricted,
            other_handler=OTHER_HANDLER,
        )
        (self.folder / "config.toml").write_text(text)

    def _make_bridge(self) -> dict[str, Any]:
        """Create the bridge of pods and this machine; the CNI plugin's own would leave packet forwarding enabled."""
        # Without a fixed MAC address the bridge's changes with each new pod, and the other pods do not learn of it.
        run(program("busybox"), "ip", "link", "add", "name", self.bridge, "address", BRIDGE_ADDRESS, "type", "bridge")
        number = socket.if_nametoindex(self.bridge)
        # Addresses reserved for test beds; the interface index is unique, so each lab has its own network.
        network = f"198.{18 + number // 256 % 2}.{number % 256}"
        run(program("busybox"), "ip", "address", "add", f"{network}.1/24", "dev", self.bridge)
        run(program("busybox"), "ip", "link", "set", self.bridge, "up")
        return {"type": "bridge", "bridge": self.bridge, "ipam": self._addresses(f"{network}.0/24")}

    def _routed_network(self) -> dict[str, Any]:
        """A link to this machine for each pod: packets between pods pass its rules, which those on a bridge need not."""
        return {"type": "ptp", "ipam": self._addresses(ROUTED_PODS)}

    def _addresses(self, subnet: str) -> dict[str, Any]:
        folder, routes = str(self.folder / "addresses"), [{"dst": "0.0.0.0/0"}]
        return {"type": "host-local", "dataDir": folder, "ranges": [[{"subnet": subnet}]], "routes": routes}

    def start(self) -> None:
        """Start it and wait until CRI answers."""
        program("runc")
        command = [program("containerd"), "--config", str(self.folder / "config.toml")]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PATH": PATH})
        self._until(self._answers)

    def kill(self) -> None:
        """Kill containerd as a crash would; its containers keep running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def shims(self) -> list[psutil.Process]:
        """The shims, one for each pod; they outlive containerd."""
        ours = (one for one in psutil.process_iter(["cmdline"]) if str(self.socket) in (one.info["cmdline"] or ()))
        return [one for one in ours if "containerd-shim" in one.info["cmdline"][0]]

    def ctr(self, *arguments: str) -> str:
        """Run `ctr` in the namespace of CRI and return its output."""
        return run(program("ctr"), "--address", str(self.socket), "--namespace", "k8s.io", *arguments)

    def add_images(self, images: Iterable[Image]) -> None:
        """Import images, as if they had been pulled."""
        added = tuple(images)
        archive = self.folder / "images.tar"
        write_archive(archive, added, program("busybox"))
        self.ctr("images", "import", str(archive))
        archive.unlink()
        self._until(lambda: all(self._has(image.name) for image in added))

    def remove(self) -> None:
        """End containerd and all containers; remove mounts, networks, cgroups and the folder."""
        self.kill()
        shims = self.shims()
        # The shims last: each is the parent of the processes that its containers have left.
        end_processes([child for shim in shims if shim.is_running() for child in shim.children(recursive=True)])
        end_processes(shims)
        for address in self.folder.glob("state/io.containerd.runtime.v2.task/*/*/address"):
            Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed([found for found in mounts if found.startswith(f"{self.folder}/")]):
            run("umount", "--lazy", mount)
        if self.bridge in (name for _, name in socket.if_nameindex()):
            run(program("busybox"), "ip", "link", "delete", self.bridge)
        name = self.cgroup_parent.removeprefix("/")
        for parent in (*CGROUPS.glob(f"*/{name}"), *CGROUPS.glob(name)):
            for cgroup, _, _ in os.walk(parent, topdown=False):
                Path(cgroup).rmdir()
        shutil.rmtree(self.folder)

    def ready_sandboxes(self) -> dict[str, str]:
        """The names of the pods that have a ready sandbox, each with its runtime handler."""
        with grpc.insecure_channel(self.endpoint) as channel:
            request = cri.ListPodSandboxRequest()
            listed = services.RuntimeServiceStub(channel).ListPodSandbox(request, timeout=5).items
        return {one.metadata.name: one.runtime_handler for one in listed if one.state == cri.SANDBOX_READY}

    def _answers(self) -> bool:
        with grpc.insecure_channel(self.endpoint) as channel, suppress(grpc.RpcError):
            services.RuntimeServiceStub(channel).Version(cri.VersionRequest(), timeout=5)
            return True
        return False

    def _has(self, image: str) -> bool:
        with grpc.insecure_channel(self.endpoint) as channel:
            request = cri.ImageStatusRequest(image=cri.ImageSpec(image=image))
            return bool(services.ImageServiceStub(channel).ImageStatus(request, timeout=5).image.id)

    def _until(self, is_so: Callable[[], bool]) -> None:
        assert self._process is not None
        while not is_so():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)
                pytest.fail(f"containerd ended\n{self.log.read_text()}")


def may_lower_oom_scores() -> bool:
    """Whether this process may give others an OOM score below its own."""
    effective = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    return bool(int(effective, 16) >> CAP_SYS_RESOURCE & 1)


def end_processes(processes: Iterable[psutil.Process]) -> None:
    """Kill processes and wait until they have ended, though their parents may not have reaped them yet."""
    for process in processes:
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], 5)
            os.close(descriptor)


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
