"""The DNS of `pykubelet up`: Services and pods of a whole cluster have their names."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dns_lab import needs_dig
from kubectl import Kubectl
from pykubelet_process import UpProcess

pytestmark = [pytest.mark.timeout(120), needs_dig]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    process = UpProcess(tmp_path, runtime="sim").start()
    yield process
    assert process.stop() == 0


def test_names_of_a_cluster_are_found_and_survive_a_restart(up: UpProcess, tmp_path: Path) -> None:
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    kubectl("create", "service", "clusterip", "web", "--tcp=80")
    expected = kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}").strip()
    for _ in range(2):
        service = json.loads(kubectl("get", "service", "kube-dns", "-n", "kube-system", "-o", "json"))
        assert service["spec"]["clusterIP"] == "10.96.0.10"
        # The server may have another port than before the restart.
        assert up.has_said("cluster DNS listens", within_seconds=20)
        said = next(line for line in up.lines if "cluster DNS listens" in line)
        address, port = (said.partition(f"{name}=")[2].split()[0] for name in ("address", "port"))
        slices = ("wait", "endpointslice/kube-dns", "-n", "kube-system", "--timeout=20s")
        kubectl(*slices, f"--for=jsonpath={{.endpoints[0].addresses[0]}}={address}")
        kubectl(*slices, f"--for=jsonpath={{.ports[0].port}}={port}")
        for name, printed in [("web.default", expected), ("kube-dns.kube-system", "10.96.0.10")]:
            command = ["dig", f"@{address}", "-p", port, "+short", "+tries=3", f"{name}.svc.cluster.local"]
            assert (
                subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout == f"{printed}\n"
            )
        up.kill()
        up.start()
