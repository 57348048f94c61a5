"""Pods that run on containerd: their network, init containers and sidecars, probes and hooks, logs."""

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from oci_images import WEB
from process_cluster import ProcessCluster, pod, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"
NOTES: dict[str, Any] = {"volumes": [{"name": "notes", "emptyDir": {}}]}


def note(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that mounts a volume shared with the other containers of its pod."""
    return shell(script, name, volumeMounts=[{"name": "notes", "mountPath": "/notes"}], **fields)


def test_pod_has_its_own_address_that_others_can_reach(cluster: ProcessCluster) -> None:
    """The node's probes and hooks, another pod and the machine reach it."""
    index = {"httpGet": {"port": "web", "path": "/"}}
    ports = [{"name": "web", "containerPort": 8080}]
    probes = {"readinessProbe": {**index, "periodSeconds": 1}, "livenessProbe": {"tcpSocket": {"port": 8080}}}
    serves = cluster.run(pod("serves", {"name": "main", "image": WEB, "ports": ports, **probes}))
    address = serves["status"]["podIP"]
    assert serves["status"]["podIPs"] == [{"ip": address}]
    with urllib.request.urlopen(f"http://{address}:8080/", timeout=10) as answer:
        assert answer.read() == b"hello from the pod\n"
    hook = {"postStart": {"httpGet": {"host": address, "port": 8080, "path": "/"}}}
    asks = cluster.run(
        pod("asks", shell(f"wget -q -O - http://{address}:8080/; hostname -i; {FOREVER}", lifecycle=hook))
    )
    assert cluster.kubectl("logs", "asks").splitlines() == ["hello from the pod", asks["status"]["podIP"]]
    assert asks["status"]["podIP"] not in {address, asks["status"]["hostIP"]}


def devices(text: str) -> set[str]:
    return {line.partition(":")[0].strip() for line in text.splitlines() if ":" in line}


def test_pod_on_the_network_of_the_machine_has_its_address(cluster: ProcessCluster) -> None:
    """It has the machine's network devices too, not only a loopback."""
    shown = cluster.run(pod("on-host", shell(f"cat /proc/net/dev; {FOREVER}"), hostNetwork=True))
    assert shown["status"]["podIP"] == shown["status"]["hostIP"]
    ours, told = devices(Path("/proc/net/dev").read_text()), devices(cluster.kubectl("logs", "on-host"))
    assert len(told & ours) > 1


def test_host_names_of_a_pod_are_in_its_files(cluster: ProcessCluster) -> None:
    """/etc/hosts has its own name and its aliases, /etc/resolv.conf its DNS settings."""
    aliases = [{"ip": "192.0.2.7", "hostnames": ["seven", "sept"]}]
    dns = {"nameservers": ["192.0.2.53"], "searches": ["example.test"], "options": [{"name": "ndots", "value": "3"}]}
    fields: dict[str, Any] = {
        "hostname": "host",
        "subdomain": "sub",
        "hostAliases": aliases,
        "dnsPolicy": "None",
        "dnsConfig": dns,
    }
    shown = cluster.run(pod("named", shell(f"hostname; cat /etc/hosts /etc/resolv.conf; {FOREVER}"), **fields))
    name, *told = cluster.kubectl("logs", "named").splitlines()
    assert name == "host"
    assert "192.0.2.7\tseven\tsept" in told
    assert f"{shown['status']['podIP']}\thost.sub.default.svc.cluster.local\thost" in told
    assert {"search example.test", "nameserver 192.0.2.53", "options ndots:3"} <= set(told)


def test_sidecar_starts_in_init_order_and_ends_last(cluster: ProcessCluster) -> None:
    """The next init container starts only when the startup probe of the sidecar has succeeded."""
    up = {"exec": {"command": ["test", "-e", "/notes/up"]}, "periodSeconds": 1}
    loop = "while :; do sleep 0.05; done"
    stopping = f"trap 'echo sidecar ends; cat /notes/told >/dev/termination-log; exit 0' TERM; touch /notes/up; {loop}"
    tell = "echo {0} >>/notes/told; echo {0}"
    init = [
        note(tell.format("first"), "first"),
        note(f"{tell.format('sidecar')}; {stopping}", "sidecar", restartPolicy="Always", startupProbe=up),
        note(f"test -e /notes/up; {tell.format('second')}", "second"),
    ]
    main = note(f"{tell.format('main')}; sleep 0.3; {tell.format('end')}")
    shown = cluster.finish(pod("accompanied", main, initContainers=init, restartPolicy="Never", **NOTES))
    ends = {one["name"]: one["state"]["terminated"] for one in shown["status"]["initContainerStatuses"]}
    assert {name: end["exitCode"] for name, end in ends.items()} == {"first": 0, "sidecar": 0, "second": 0}
    assert ends["sidecar"]["message"].split() == ["first", "sidecar", "second", "main", "end"]
    assert cluster.kubectl("logs", "accompanied", "-c", "sidecar") == "sidecar\nsidecar ends\n"


def test_logs_of_the_current_and_previous_run_and_followed_logs(cluster: ProcessCluster) -> None:
    """Logs have stdout and stderr; a followed log ends with its container."""
    again = f"test -e /notes/again && {{ echo second; {FOREVER}; }}"
    main = note(f"{again}; touch /notes/again; echo first; echo error >&2; exit 1")
    counts = shell("for n in 0 1 2 3; do echo line $n; sleep 0.3; done; exec sleep 1", "counts")
    cluster.create(pod("tells", main, counts, **NOTES))
    cluster.until("jsonpath={.status.containerStatuses[0].state.running}", "tells")
    followed = cluster.kubectl("logs", "tells", "-c", "counts", "--follow")
    assert followed.splitlines() == [f"line {number}" for number in range(4)]
    cluster.until_field(".status.containerStatuses[1].restartCount", "1", "tells")
    cluster.until("jsonpath={.status.containerStatuses[1].state.running}", "tells")
    assert sorted(cluster.kubectl("logs", "tells", "-c", "main", "--previous").split()) == ["error", "first"]
    assert cluster.kubectl("logs", "tells", "-c", "main") == "second\n"


def test_hooks_run_in_the_container(cluster: ProcessCluster) -> None:
    """The files that they write are visible to the container."""
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo started >/notes/told"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo stopping >>/notes/told; sleep 0.3"]}},
    }
    stay = "trap 'cat /notes/told >/dev/termination-log; exit 3' TERM; while :; do sleep 0.05; done"
    document = pod("hooked", note(stay, lifecycle=hooks), **NOTES)
    document["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.run(document)
    cluster.kubectl("delete", "pod", "hooked", "--wait=false")
    cluster.until_field(".status.phase", "Failed", "hooked")
    end = cluster.pod("hooked")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["message"]) == (3, "started\nstopping\n")
    cluster.kubectl("patch", "pod", "hooked", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster.until("delete", "hooked")
