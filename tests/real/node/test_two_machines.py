"""A node of another machine joins `up` with the printed command: two network namespaces, real processes and packets."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykubelet_process import UpProcess
from terminal import Terminal
from two_machines import FIRST_IP, SECOND_IP, JoinedMachine, TwoMachines

pytestmark = pytest.mark.timeout(180)
PATIENCE = "--timeout=40s"
_TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
# Answers each request with the address of its client.
_SERVER = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.client_address[0].encode())
http.server.HTTPServer(("", 80), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    """A cluster with a joined node, whose pods serve on both machines; the test runs on the first one."""
    made = TwoMachines(tmp_path_factory.mktemp("machines"))
    with made.first.inside():
        try:
            made.up.start()
            made.node(made.join_command()).start()
            made.kubectl("wait", "--for=condition=Ready", "node", "--all", PATIENCE)
            made.apply(web("web-1", "first"), web("web-2", "second"), service())
            made.kubectl("wait", "--for=condition=Ready", "pod", "--all", PATIENCE)
            yield made
        finally:
            made.close()


def web(name: str, node: str) -> dict[str, Any]:
    """A pod on a node that serves HTTP and logs its start."""
    container = {
        "name": "main",
        "image": "any",
        "command": ["sh", "-c", 'echo started; exec python3 -c "$0"', _SERVER],
        "readinessProbe": {"httpGet": {"port": 80}, "periodSeconds": 1},
    }
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 0}
    metadata = {"name": name, "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def service() -> dict[str, Any]:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


def field(cluster: TwoMachines, what: str, path: str) -> str:
    return cluster.kubectl("get", *what.split(), "-o", f"jsonpath={{{path}}}")


def until(cluster: TwoMachines, what: str, path: str, wanted: str) -> None:
    """Wait until a field of an object has a value."""
    cluster.kubectl("wait", f"--for=jsonpath={{{path}}}={wanted}", *what.split(), PATIENCE)


def fetch(cluster: TwoMachines, pod: str, host: str) -> str:
    return cluster.kubectl("exec", pod, "--", "curl", "-s", "--max-time", "5", f"http://{host}/")


def gateways(cluster: TwoMachines, machine: str) -> dict[str, str]:
    """The gateways of the routes that a machine has to pods of the other one."""
    place = cluster.first if machine == "first" else cluster.second
    found = json.loads(place.run("ip", "-json", "route", "show", "proto", "112"))
    return {each["dst"]: each["gateway"] for each in found}


def test_pods_of_both_machines_reach_each_other_with_their_own_addresses(cluster: TwoMachines) -> None:
    """By address, and by the name of a Service, which is answered by the cluster DNS of the other machine."""
    addresses = {pod: field(cluster, f"pod {pod}", ".status.podIP") for pod in ("web-1", "web-2")}
    for pod, own in addresses.items():
        for host in addresses.values():
            # A pod that reaches itself comes from itself, too.
            assert fetch(cluster, pod, host) == own
        # Over a Service, a pod may reach itself, which the proxy masquerades.
        assert fetch(cluster, pod, "web.default.svc.cluster.local")


def test_each_machine_routes_to_the_other_one(cluster: TwoMachines) -> None:
    ranges = {name: field(cluster, f"node {name}", ".spec.podCIDR") for name in ("first", "second")}
    assert ranges == {"first": "10.244.0.0/24", "second": "10.244.1.0/24"}
    assert gateways(cluster, "first") == {ranges["second"]: SECOND_IP}
    assert gateways(cluster, "second") == {ranges["first"]: FIRST_IP}
    for name in ranges:
        until(cluster, f"node {name}", '.status.conditions[?(@.type=="NetworkUnavailable")].status', "False")


def test_joined_node_serves_logs_and_commands(cluster: TwoMachines) -> None:
    assert cluster.kubectl("logs", "web-2").splitlines()[0] == "started"
    assert cluster.kubectl("exec", "web-2", "--", "echo", "there") == "there\n"


def test_joined_node_has_a_certificate_of_its_own_and_few_rights(cluster: TwoMachines) -> None:
    users = field(cluster, "csr", ".items[*].spec.username").split()
    assert any(user.startswith("system:bootstrap:") for user in users)
    as_node = ("--as=system:node:second", "--as-group=system:nodes")
    for verb, what in (("get", "secrets"), ("create", "deployments"), ("patch", "persistentvolumeclaims")):
        assert cluster.kubectl.run("auth", "can-i", verb, what, "-A", *as_node, code=1).stdout.startswith("no")
    volume: dict[str, Any] = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "stolen"}}
    volume["spec"] = {"capacity": {"storage": "1"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/etc"}}
    refused = cluster.kubectl.run("create", *as_node, "-f", "-", text=json.dumps(volume), code=1)
    assert "may only write volumes that it has provisioned on itself" in refused.stderr


def test_claim_is_provisioned_where_its_pod_runs_and_removed_with_it(cluster: TwoMachines) -> None:
    pod = web("db", "")
    pod["metadata"]["labels"] = {}
    main = pod["spec"]["containers"][0]
    main["command"] = ["sh", "-c", "echo kept >/data/file; exec sleep 1000"]
    main["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    del main["readinessProbe"], pod["spec"]["nodeName"]
    pod["spec"] |= {
        "nodeSelector": {"kubernetes.io/hostname": "second"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.apply(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec}, pod
    )
    cluster.kubectl("wait", "--for=condition=Ready", "pod/db", PATIENCE)
    volume = field(cluster, "pvc data", ".spec.volumeName")
    folder = cluster.nodes[0].root / "volumes" / volume
    assert (folder / "file").read_text() == "kept\n"
    assert not (cluster.up.data / "volumes" / volume).exists()
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    cluster.kubectl("patch", "pvc", "data", "-p", json.dumps(larger))
    until(cluster, "pvc data", ".status.capacity.storage", "2Gi")
    cluster.kubectl("delete", "pod/db", "pvc/data", "--wait")
    cluster.kubectl("wait", "--for=delete", f"pv/{volume}", PATIENCE)
    assert not folder.exists()


def test_joined_node_starts_again_without_its_token(cluster: TwoMachines) -> None:
    """Its pods run on meanwhile, and the rights of the node are those of its certificate."""
    node = cluster.nodes[0]
    node.kill()
    address = field(cluster, "pod web-2", ".status.podIP")
    assert fetch(cluster, "web-1", address)
    node.join = ["node", "--join", node.join[node.join.index("--join") + 1]]
    node.start()
    assert field(cluster, "pod web-2", ".status.podIP") == address
    assert fetch(cluster, "web-2", field(cluster, "pod web-1", ".status.podIP")) == address
    assert field(cluster, "pod web-2", ".status.containerStatuses[0].restartCount") == "0"


def test_cluster_goes_on_when_up_starts_again(cluster: TwoMachines) -> None:
    """Routes and rules stay while it does not run, and pods of the other machine find the API again."""
    routes = gateways(cluster, "first")
    cluster.up.kill()
    assert gateways(cluster, "first") == routes
    cluster.up.start()
    cluster.kubectl("wait", "--for=condition=Ready", "node", "--all", PATIENCE)
    assert gateways(cluster, "first") == routes
    asked = ("curl", "-sk", "--retry", "5", "--retry-all-errors", "https://kubernetes.default.svc/version")
    assert json.loads(cluster.kubectl("exec", "web-2", "--", *asked))["major"] == "1"
    assert cluster.kubectl("exec", "web-2", "--", "echo", "there") == "there\n"


def changed(words: list[str], option: str, value: str) -> list[str]:
    place = words.index(option) + 1
    return [*words[:place], value, *words[place + 1 :]]


def refusal(cluster: TwoMachines, words: list[str], *, name: str = "third") -> str:
    return JoinedMachine(cluster.folder / "refused", cluster.second, words, name=name).refusal()


def test_machine_that_may_not_join_is_told_why_without_its_token(cluster: TwoMachines) -> None:
    words = cluster.join_command()
    token = words[words.index("--token") + 1]
    wrong = f"sha256:{'0' * 64}"
    cases = {
        "not that of --ca-cert-hash": changed(words, "--ca-cert-hash", wrong),
        "Unauthorized": changed(words, "--token", f"{token[:7]}{'0' * 16}"),
        "cannot connect to 10.77.0.9": changed(words, "--join", "https://10.77.0.9:6443"),
        "join with --token and --ca-cert-hash": words[:3],
    }
    for reason, options in cases.items():
        why = refusal(cluster, options)
        assert reason in why
        assert token[7:] not in why
    assert 'the cluster has a node "first" already' in refusal(cluster, words, name="first")
    until_expired = cluster.join_command("--ttl", "1s")
    name = f"bootstrap-token-{until_expired[until_expired.index('--token') + 1][:6]}"
    cluster.kubectl("-n", "kube-system", "wait", "--for=delete", f"secret/{name}", PATIENCE)
    assert "Unauthorized" in refusal(cluster, until_expired)


def test_node_that_is_not_reached_directly_gets_an_event_and_a_condition(cluster: TwoMachines) -> None:
    status = {"addresses": [{"type": "InternalIP", "address": "203.0.113.9"}]}
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "far"}})
    cluster.kubectl("patch", "node", "far", "--subresource=status", "-p", json.dumps({"status": status}))
    until(cluster, "node far", '.status.conditions[?(@.type=="NetworkUnavailable")].reason', "NoRouteCreated")
    described = cluster.kubectl("describe", "node", "far")
    assert re.search(
        r"FailedToCreateRoute .*Could not create a route from node first: no route to 10\.244\.", described
    )
    cluster.kubectl("delete", "node", "far")


def test_no_log_has_a_token(cluster: TwoMachines) -> None:
    """The command is shown on a terminal only; elsewhere `up` says which command prints it."""
    assert cluster.up.has_said("pykubelet token create --print-join-command")
    lines = [*cluster.up.lines, *(line for node in cluster.nodes for line in node.lines)]
    assert not [line for line in lines if _TOKEN.search(line)]


def test_node_that_leaves_gives_back_its_range_and_its_routes(cluster: TwoMachines) -> None:
    """Nothing is left on the first machine, nor on the second one after its pods; later tests have no second node."""
    node = cluster.nodes[0]
    cluster.kubectl("delete", "pod", "web-2", "--wait")
    assert node.stop() == 0
    assert gateways(cluster, "second") == {}
    cluster.kubectl("delete", "node", "second")
    pause = threading.Event()
    assert any(not gateways(cluster, "first") or pause.wait(0.05) for _ in range(400))


def test_down_removes_the_routes(cluster: TwoMachines) -> None:
    """The last test of this cluster: it ends."""
    pause, status = threading.Event(), {"addresses": [{"type": "InternalIP", "address": SECOND_IP}]}
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "left"}})
    cluster.kubectl("patch", "node", "left", "--subresource=status", "-p", json.dumps({"status": status}))
    assert any(gateways(cluster, "first") or pause.wait(0.05) for _ in range(400))
    cluster.up.kill()
    cluster.first.run(sys.executable, "-m", "pykubelet", "down", "--data-dir", str(cluster.up.data))
    assert gateways(cluster, "first") == {}


def test_up_prints_the_command_on_a_terminal(tmp_path: Path) -> None:
    machines = TwoMachines(tmp_path)
    try:
        up = UpProcess(tmp_path, "--bind", FIRST_IP, runtime="sim", name="first")
        command = [*machines.first.enter, sys.executable, "-m", "pykubelet", *up.command()]
        shown = Terminal(*command, columns=300)
        try:
            shown.until("nodes of other machines join with")
            printed = shown.until("sha256:")
        finally:
            shown.close()
        assert re.search(r"pykubelet node --join https://10\.77\.0\.1:\d+ --token [a-z0-9]{6}\.[a-z0-9]{16} ", printed)
    finally:
        machines.close()
