"""A node beside an API server that others reach over the network, on a machine without a name or default route."""

import json
import sys
from pathlib import Path

import pytest

from isolated_machine import run_alone
from process_cluster import pod, shell

# The first is what the kernel is asked for to find the default route, the other is known as the server's only.
ROUTED, OTHER = "192.0.2.1", "198.51.100.1"
SCRIPT = """
pykubelet apiserver --data-dir data --bind $BIND --port 0 &
until test -s data/admin.kubeconfig; do sleep 0.1; done
export KUBECONFIG=data/admin.kubeconfig
pykubelet node --kubeconfig $KUBECONFIG --node-name n --root-dir root --manifests pods --runtime process --port 0 &
until pykubelet logs talker-n | grep said; do sleep 0.3; done
pykubelet get node n -o wide
"""


@pytest.mark.parametrize(("bind", "address"), [("0.0.0.0", ROUTED), (OTHER, OTHER)])
@pytest.mark.timeout(120)
def test_logs_of_a_node_beside_its_api_server_are_shown(tmp_path: Path, bind: str, address: str) -> None:
    """The node registers the machine's address and listens there, because its API server does not use loopback."""
    (tmp_path / "pods").mkdir()
    talker = pod("talker", shell("echo said; exec sleep 1000"))
    (tmp_path / "pods/talker.json").write_text(json.dumps(talker))
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin:/usr/sbin:/sbin"
    environment = {"PATH": path, "HOME": str(tmp_path), "BIND": bind}
    done = run_alone(["sh", "-c", SCRIPT], folder=tmp_path, environment=environment, seconds=60, address=address)
    assert "said" in done.stdout, done.stdout
    assert f" {address} " in done.stdout.splitlines()[-1], done.stdout
