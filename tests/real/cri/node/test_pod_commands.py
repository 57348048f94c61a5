"""kubectl exec, attach, port-forward and cp with containers of containerd, by WebSocket and by SPDY."""

import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from oci_images import WEB
from process_cluster import ProcessCluster, pod
from real.node.test_pod_commands import *  # noqa: F403  the whole suite, with this folder's cluster; what follows replaces some

SIZE = 300_000


@pytest.fixture(scope="module")
def web(cluster: ProcessCluster) -> str:
    """A pod that serves a file to whoever comes to the address of the pod."""
    make = f"head -c {SIZE} /dev/urandom >/srv/file; exec httpd -f -p 8080 -h /srv"
    ready = {"httpGet": {"port": 8080, "path": "/file"}, "periodSeconds": 1}
    serve = {"name": "main", "image": WEB, "command": ["sh", "-c", make], "readinessProbe": ready}
    cluster.run(pod("web", serve))
    return "web"


def test_port_forward_carries_connections(cluster: ProcessCluster, web: str) -> None:
    """Several at once, each with all its bytes."""
    with cluster.kubectl.start("port-forward", f"pod/{web}", ":8080") as forward:
        assert forward.stdout is not None
        where = forward.stdout.readline().removeprefix("Forwarding from ").partition(" ")[0]

        def fetch(_: int) -> bytes:
            with urllib.request.urlopen(f"http://{where}/file", timeout=30) as answer:
                return bytes(answer.read())

        with ThreadPoolExecutor(8) as pool:
            fetched = list(pool.map(fetch, range(16)))
        forward.terminate()
    assert [len(one) for one in fetched] == [SIZE] * 16
    assert len(set(fetched)) == 1
