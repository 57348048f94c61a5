"""Security contexts and limits of containers on containerd, read inside the containers and in their cgroups."""

from typing import Any

import pytest

from cgroup_files import IS_V2, places, value
from containerd_lab import ContainerdLab
from oci_images import NAMED_USER, NUMBERED_USER
from process_cluster import ProcessCluster, pod, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"
LOOK = (
    "id -u; id -g; id -G; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'; "
    "touch /new 2>/dev/null && echo root is writable; stat -c '%g %A' /data; touch /data/new && stat -c %g /data/new"
)
ALL_CAPABILITIES, NO_CAPABILITIES = "CapEff:00000000a80425fb", "CapEff:0000000000000000"
DATA: dict[str, Any] = {"volumes": [{"name": "data", "emptyDir": {}}]}
MOUNT: dict[str, Any] = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
CONFINED = {
    "runAsUser": 1234,
    "runAsGroup": 77,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
ADDED = {"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CHOWN"]}}
SEEN: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "plain": (
        {},
        {},
        ["0", "0", "0", ALL_CAPABILITIES, "NoNewPrivs:0", "Seccomp:2", "root is writable", "0 drwxrwxrwx", "0"],
    ),
    "confined": (
        {"fsGroup": 88, "supplementalGroups": [99]},
        CONFINED,
        ["1234", "77", "77 88 99", NO_CAPABILITIES, "NoNewPrivs:1", "Seccomp:2", "88 drwxrwsrwx", "88"],
    ),
    "container-first": (
        {"runAsUser": 1, "runAsGroup": 2, "seccompProfile": {"type": "RuntimeDefault"}},
        {"runAsUser": 65534, "seccompProfile": {"type": "Unconfined"}},
        ["65534", "2", "2", NO_CAPABILITIES, "NoNewPrivs:0", "Seccomp:0", "0 drwxrwxrwx", "2"],
    ),
    "some-capabilities": (
        {},
        ADDED,
        [
            "0",
            "0",
            "0",
            "CapEff:0000000000000401",
            "NoNewPrivs:0",
            "Seccomp:2",
            "root is writable",
            "0 drwxrwxrwx",
            "0",
        ],
    ),
}


def test_container_has_the_rights_of_its_security_context(cluster: ProcessCluster) -> None:
    """It sets users, groups, capabilities, no_new_privs, seccomp, a read-only root, and the group of volumes."""
    for name, (whole, own, _) in SEEN.items():
        main = shell(LOOK, securityContext=own, **MOUNT)
        cluster.create(pod(name, main, restartPolicy="Never", securityContext=whole, **DATA))
    cluster.until_field(".status.phase", "Succeeded", *SEEN)
    assert {name: cluster.kubectl("logs", name).splitlines() for name in SEEN} == {
        name: lines for name, (_, _, lines) in SEEN.items()
    }


def test_run_as_non_root_needs_a_numeric_user_that_is_not_root(cluster: ProcessCluster) -> None:
    """A user given only by name may be root, and an image without a user runs as root."""
    must: dict[str, Any] = {"securityContext": {"runAsNonRoot": True}}
    number, name = (shell("id -u", **must) | {"image": image} for image in (NUMBERED_USER, NAMED_USER))
    cluster.create(
        pod("non-root", number, restartPolicy="Never"), pod("by-name", name), pod("root", shell(FOREVER, **must))
    )
    cluster.until_field(".status.phase", "Succeeded", "non-root")
    assert cluster.kubectl("logs", "non-root") == "1000\n"
    refusals = {
        "root": "container has runAsNonRoot and image will run as root",
        "by-name": "image has non-numeric user",
    }
    for refused, words in refusals.items():
        cluster.until_field(".status.containerStatuses[0].state.waiting.reason", "CreateContainerConfigError", refused)
        told = cluster.pod(refused)["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
        assert words in told


def test_privileged_container_may_do_almost_everything(cluster: ProcessCluster) -> None:
    """It has the devices of the machine and may mount."""
    script = "ls /dev | wc -l; mkdir /tmp/m; mount -t tmpfs none /tmp/m && echo mounted"
    plain, privileged = (
        shell(f"{script}; true", name, securityContext={"privileged": name == "privileged"})
        for name in ("plain", "privileged")
    )
    cluster.finish(pod("mighty", plain, privileged, restartPolicy="Never"))
    few, *not_mounted = cluster.kubectl("logs", "mighty", "-c", "plain").splitlines()
    many, mounted = cluster.kubectl("logs", "mighty", "-c", "privileged").splitlines()
    assert int(few) < int(many)
    assert (mounted, "mounted" in not_mounted) == ("mounted", False)


def test_limits_of_pods_and_containers_are_in_their_cgroups(cluster: ProcessCluster, containerd: ContainerdLab) -> None:
    """The cgroups are removed with the pod."""
    limits = {"requests": {"cpu": "250m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "64Mi"}}
    shown = cluster.run(pod("limited", shell(FOREVER, resources=limits)))
    whole = f"kubepods/burstable/pod{shown['metadata']['uid']}"
    own = f"{whole}/{shown['status']['containerStatuses'][0]['containerID'].removeprefix('containerd://')}"
    for path in (whole, own):
        assert value(containerd, path, "memory", "memory.limit_in_bytes", "memory.max") == str(64 << 20)
        if IS_V2:
            assert value(containerd, path, "", "", "cpu.max") == "50000 100000"
        else:
            assert value(containerd, path, "cpu", "cpu.cfs_quota_us", "") == "50000"
            assert value(containerd, path, "cpu", "cpu.shares", "") == "256"
    assert shown["status"]["qosClass"] == "Burstable"
    cluster.kubectl("delete", "pod", "limited")
    assert places(containerd, whole) == []


def test_container_over_its_memory_limit_is_oom_killed(cluster: ProcessCluster) -> None:
    """By restartPolicy the pod fails, or its container is restarted."""
    grow = shell("x=$(yes | head -c 100000000); echo $x", resources={"limits": {"memory": "16Mi"}})
    cluster.create(pod("too-big", grow, restartPolicy="Never"), pod("again-too-big", grow))
    cluster.until_field(".status.phase", "Failed", "too-big")
    end = cluster.pod("too-big")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end["reason"], end["exitCode"]) == ("OOMKilled", 137)
    last = ".status.containerStatuses[0].lastState.terminated"
    cluster.until_field(f"{last}.reason", "OOMKilled", "again-too-big")
    cluster.until_field(f"{last}.exitCode", "137", "again-too-big")
