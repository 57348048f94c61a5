"""One cluster per test module, with simulated containers and objects of every kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli_lab import Pykubelet, Sides
from kubectl import Kubectl
from pykubelet_process import UpProcess

OBJECTS = Path(__file__).parent / "objects.yaml"
PATIENCE = "--timeout=30s"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sides")


@pytest.fixture(scope="module")
def kubeconfig(folder: Path) -> Path:
    """The path of the kubeconfig, which exists once the cluster runs."""
    return folder / "data/admin.kubeconfig"


@pytest.fixture(scope="module")
def sides(folder: Path) -> Iterator[Sides]:
    process = UpProcess(folder, runtime="sim").start()
    try:
        kubectl = Kubectl(process.kubeconfig, "default", folder / "cache")
        kubectl("apply", "-f", str(OBJECTS))
        kubectl("wait", "--for=condition=Established", PATIENCE, "crd/widgets.example.com")
        kubectl("rollout", "status", PATIENCE, "deployment/web")
        kubectl("rollout", "status", PATIENCE, "statefulset/db")
        kubectl("rollout", "status", PATIENCE, "daemonset/agent")
        kubectl("wait", "--for=jsonpath={.status.ready}=1", PATIENCE, "job/once")
        kubectl("wait", "--for=create", PATIENCE, "lease/node-1", "--namespace=kube-node-lease")
        kubectl("apply", "-f", "-", text=WIDGET)
        yield Sides(Pykubelet(process.kubeconfig), kubectl)
    finally:
        process.kill()


WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: round}
spec: {size: 3, sizes: [1, 2], parts: [{name: wheel}]}
"""
