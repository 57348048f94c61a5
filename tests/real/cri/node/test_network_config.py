"""A containerd without a network configuration gets one from the node, with the range that the cluster assigns."""

import json
from pathlib import Path

import pytest

import oci_images
from containerd_lab import ContainerdLab, running_containerd
from kubectl import Kubectl
from own_network import nft_tables, own_network
from pykubelet_process import UpProcess

pytestmark = pytest.mark.timeout(120)


def pod(name: str) -> dict[str, object]:
    """A pod that serves HTTP with its own name as the answer."""
    script = f"mkdir -p /tmp/w && echo {name} >/tmp/w/index.html && exec httpd -f -p 80 -h /tmp/w"
    container = {
        "name": "main",
        "image": oci_images.BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def without_configuration(lab: ContainerdLab) -> Path:
    """Remove the configuration of the lab; returns the folder."""
    (lab.folder / "cni/lab.conflist").unlink()
    return lab.folder / "cni"


def test_pods_get_addresses_of_the_nodes_range(tmp_path: Path) -> None:
    """The configuration is ours alone, and pods reach each other."""
    with own_network(), running_containerd() as lab:
        folder = without_configuration(lab)
        options = ("--cri-socket", str(lab.socket), "--cluster-cidr", "10.199.0.0/16")
        up = UpProcess(tmp_path, *options, runtime="cri").start()
        try:
            kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
            kubectl(
                "apply", "-f", "-", text=json.dumps({"kind": "List", "apiVersion": "v1", "items": [pod("a"), pod("b")]})
            )
            kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
            addresses = {
                each["metadata"]["name"]: each["status"]["podIP"] for each in kubectl.json("get", "pods")["items"]
            }
            assert all(address.startswith("10.199.0.") for address in addresses.values())
            assert kubectl("exec", "a", "--", "wget", "-q", "-O", "-", f"http://{addresses['b']}/") == "b\n"
            assert [each.name for each in folder.iterdir()] == ["10-pykubelet.conflist"]
            assert any(name.startswith("pykubelet-") for name in nft_tables())
            kubectl("delete", "pod", "--all", "--wait")
        finally:
            up.stop()
