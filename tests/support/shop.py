"""The app of examples/shop on `pykubelet up`, brought up unchanged on a machine with a network of its own."""

import json
import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil

from containerd_lab import ContainerdLab, running_containerd
from cri_lab import node_runtime
from kubectl import Kubectl
from machine_image import postgres_folder, shop_root
from oci_images import IMAGES, PAUSE, Image
from ordinary_up import end_processes
from own_network import connect_machine, own_network
from process_cluster import PROCESSES
from process_lab import unmount_below
from pykubelet_process import UpProcess

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "examples/shop"
PATIENCE = "--timeout=50s"
PYTHON = "/usr/bin/python3"
INGRESS_PORT = 8080
NEXT_VERSION = "9.9.9"
# What a name without registry means to every container runtime.
_SHOP_IMAGE = "docker.io/library/shop:1"
_REQUESTS = """
import sys, urllib.request
path, count, data = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode() or None
for _ in range(count):
    print(urllib.request.urlopen("http://web" + path, data, timeout=10).read().decode(), end="")
"""
_VISITS = """
import time, urllib.request
while True:
    try:
        urllib.request.urlopen("http://web/", timeout=5).read()
        print("answered", flush=True)
    except Exception as error:
        print("failed", error, flush=True)
    time.sleep(0.2)
"""


class ShopUp(UpProcess):
    """`up` with the service proxy, and with another version of the program after `upgrade`."""

    def __init__(self, folder: Path, *options: str, runtime: str, uid: int = 0) -> None:
        self.folder, self.manifests = folder, folder / "shop"
        shutil.copytree(MANIFESTS, self.manifests)
        ingress = ("--ingress-http-port", str(INGRESS_PORT))
        super().__init__(folder, "--service-proxy", *ingress, *options, str(self.manifests), runtime=runtime, uid=uid)
        self._program: Path | None = None

    def upgrade(self) -> None:
        """Have the next start use a copy of the program with a higher version."""
        self._program = self.folder / "program"
        package = self._program / "pykubelet"
        shutil.copytree(ROOT / "src/pykubelet", package)
        about = package / "__init__.py"
        lines = [line for line in about.read_text().splitlines() if not line.startswith("__version__")]
        about.write_text("\n".join([*lines, f'__version__ = "{NEXT_VERSION}"\n']))

    def wrapper(self) -> list[str]:
        program = ["env", f"PYTHONPATH={self._program}"] if self._program else []
        return [*program, *super().wrapper()]


class Shop:
    """The running app, its cluster and a visitor in it."""

    def __init__(self, up: ShopUp) -> None:
        self.up = up
        self.kubectl = Kubectl(up.kubeconfig, "default", up.folder / "cache")

    def until_available(self) -> None:
        """Waits until the database and every replica of the web API are ready."""
        for workload in ("statefulset/database", "deployment/web"):
            self.kubectl("wait", "--for=create", workload, PATIENCE)
            self.kubectl("rollout", "status", workload, PATIENCE)

    def ask(self, path: str, data: str = "") -> Any:
        """The web API's answer to a pod that uses the name of its Service."""
        return self.answers(path, 1, data)[0]

    def answers(self, path: str, count: int, data: str = "") -> list[Any]:
        """The answers to requests, each with a connection of its own."""
        return [json.loads(line) for line in self.execute(_REQUESTS, path, str(count), data).splitlines()]

    def execute(self, script: str, *arguments: str) -> str:
        """What a Python script prints in one of the web API's pods."""
        return self.kubectl("exec", "deployment/web", "-c", "web", "--", PYTHON, "-c", script, *arguments)

    def ask_ingress(self, path: str) -> Any:
        """The web API's answer to a client on this machine, by the host name of the Ingress."""
        request = Request(f"http://127.0.0.1:{INGRESS_PORT}{path}", headers={"Host": "shop.localhost"})
        with urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def orders(self) -> list[str]:
        return [order["item"] for order in self.ask("/orders")]

    def container_ids(self) -> dict[str, str]:
        """The container of each pod; it changes with every restart."""
        pods = self.kubectl.json("get", "pods", "-l", "app in (database, web)")["items"]
        return {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["containerID"] for pod in pods}

    def patch_web(self, **container: Any) -> None:
        """Change fields of the web API's container, which makes a new release."""
        spec = {"template": {"spec": {"containers": [{"name": "web", **container}]}}}
        self.kubectl("patch", "deployment", "web", "-p", json.dumps({"spec": spec}))

    def run(self, name: str, script: str) -> None:
        """Start a pod of its own that runs a Python script, and wait until it has begun."""
        self.kubectl(
            "run",
            name,
            "--image=shop:1",
            "--restart=Never",
            "--grace-period=1",
            "--command",
            "--",
            PYTHON,
            "-c",
            script,
        )
        self.kubectl("wait", "--for=jsonpath={.status.containerStatuses[0].started}=true", f"pod/{name}", PATIENCE)

    @contextmanager
    def visited(self) -> Iterator[Callable[[], list[str]]]:
        """A visitor asks the web API five times a second; gives the lines it has printed so far."""
        self.run("visitor", _VISITS)
        yield lambda: self.kubectl("logs", "visitor").splitlines()
        self.kubectl("delete", "pod", "visitor", "--grace-period=1")


@contextmanager
def shop_on_processes(folder: Path) -> Iterator[Shop]:
    """Every container is a process of this machine, with its programs, and every pod has a network of its own."""
    postgres_folder()
    up = ShopUp(folder, "--pod-network", "own", runtime="process")
    with own_network():
        connect_machine()
        with _running(up, lambda: PROCESSES.end(up.data / "node")) as shop:
            yield shop


@contextmanager
def shop_of_ordinary_user(folder: Path) -> Iterator[Shop]:
    """The same without root: one user runs everything, in a user namespace that has the pods' networks."""
    postgres_folder()
    # PostgreSQL wants its user to have an account; this one belongs to its package.
    uid = pwd.getpwnam("postgres").pw_uid
    os.chown(folder, uid, uid)
    up = ShopUp(folder, "--pod-network", "own", runtime="process", uid=uid)
    with own_network():
        connect_machine()
        with _running(up, lambda: end_processes(folder, uid)) as shop:
            assert psutil.Process(up.pid).uids() == (uid, uid, uid)
            yield shop


@contextmanager
def shop_on_containerd(folder: Path) -> Iterator[Shop]:
    """Every container has the image that is made of this machine's programs."""
    images = [next(image for image in IMAGES if image.name == PAUSE), Image(_SHOP_IMAGE, root=shop_root())]
    with own_network():
        connect_machine()
        with running_containerd(images, has_routed_pods=True) as lab:
            up = ShopUp(folder, "--cri-socket", str(lab.socket), runtime="cri")
            with _running(up, lambda: _end_cri(lab, up)) as shop:
                yield shop


def _end_cri(lab: ContainerdLab, up: ShopUp) -> None:
    node_runtime(lab).end(up.data / "node")
    unmount_below(up.data)


@contextmanager
def _running(up: ShopUp, end: Callable[[], None]) -> Iterator[Shop]:
    try:
        up.start()
        yield Shop(up)
        assert up.stop() == 0
        assert [line for line in up.lines if "Traceback" in line or " E " in line] == []
    finally:
        if up.is_running:
            up.kill()
        end()


def mounts_below(folder: Path) -> list[str]:
    """What is mounted below a folder."""
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [place for place in places if place.startswith(f"{folder}/")]
