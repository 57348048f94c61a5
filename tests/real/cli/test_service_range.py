"""`up --service-cluster-ip-range`: addresses of Services, the certificate and the cluster DNS follow the range."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from kubectl import Kubectl
from pykubelet_process import UpProcess

RANGE = ("--service-cluster-ip-range", "10.57.0.0/24")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[UpProcess]:
    made = UpProcess(tmp_path, *RANGE, "--max-pods", "7", runtime="sim").start()
    yield made
    if made.is_running:
        assert made.stop() == 0


def test_range_holds_everywhere_and_for_good(up: UpProcess, tmp_path: Path) -> None:
    kubectl = Kubectl(up.kubeconfig, "default", tmp_path / "cache")
    address = "-ojsonpath={.spec.clusterIP}"
    assert kubectl("get", "service", "kubernetes", address) == "10.57.0.1"
    assert kubectl("get", "service", "kube-dns", "-n", "kube-system", address) == "10.57.0.10"
    kubectl("create", "service", "clusterip", "mine", "--tcp=80")
    assert kubectl("get", "service", "mine", address) == "10.57.0.2"
    refused = kubectl.run("create", "service", "clusterip", "far", "--tcp=80", "--clusterip=10.96.0.5", code=1)
    assert "The range of valid IPs is 10.57.0.0/24" in refused.stderr
    assert kubectl("get", "node", "node-1", "-ojsonpath={.status.capacity.pods}") == "7"
    shown = x509.load_pem_x509_certificate(ssl.get_server_certificate(("127.0.0.1", up.port)).encode())
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "10.57.0.1" in map(str, names.get_values_for_type(x509.IPAddress))
    assert up.stop() == 0
    up.options = ()
    assert "the service kubernetes of this cluster has the address 10.57.0.1" in up.refusal()
    up.options = RANGE
    up.start()
    assert kubectl("get", "service", "mine", address) == "10.57.0.2"


def test_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    made = UpProcess(tmp_path, "--bind", "203.0.113.1", runtime="sim")
    assert "203.0.113.1:" in made.refusal()
