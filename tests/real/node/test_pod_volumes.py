"""Volumes of every kind in containers that are processes, and updates that reach running containers."""

import json
from pathlib import Path
from typing import Any

import pytest

from kubectl import Kubectl
from process_cluster import ProcessCluster, pod, shell
from requirements import needs_mount_namespaces, needs_ordinary_user, needs_root

pytestmark = [
    # The limit for all waits of one test together.
    pytest.mark.timeout(120),
    needs_mount_namespaces,
]
FOREVER = "exec sleep 1000"
PLACE = "/no/such/place"


def volume(**source: Any) -> dict[str, Any]:
    """The pod field for one volume named `data`."""
    return {"volumes": [{"name": "data", **source}]}


def mount(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a script and mounts the volume at a path that the machine does not have."""
    return shell(script, name, volumeMounts=[{"name": "data", "mountPath": PLACE, **fields}])


def said(cluster: ProcessCluster, document: dict[str, Any]) -> list[str]:
    """Run the pod until it succeeds and return the lines of its log."""
    cluster.finish({**document, "spec": {**document["spec"], "restartPolicy": "Never"}})
    return cluster.kubectl("logs", document["metadata"]["name"]).splitlines()


def test_empty_dir_is_shared_and_outlives_its_containers(cluster: ProcessCluster) -> None:
    """Files are shared between containers and survive a restart; the next pod starts empty."""
    writer = mount(f"test -f {PLACE}/word && {FOREVER}; ls -A {PLACE}; echo hello >{PLACE}/word; exit 1", "writer")
    reader = mount(f"until test -s {PLACE}/word; do sleep 0.05; done; cat {PLACE}/word; {FOREVER}", "reader")
    for _ in range(2):
        cluster.create(pod("shared", writer, reader, **volume(emptyDir={})))
        cluster.until_field(".status.containerStatuses[1].restartCount", "1", "shared")
        cluster.until("condition=Ready", "shared")
        assert cluster.kubectl("logs", "shared", "-c", "writer", "--previous") == ""
        assert cluster.kubectl("logs", "shared", "-c", "reader") == "hello\n"
        cluster.kubectl("delete", "pod", "shared")
    assert not Path(PLACE).exists()


@needs_root
def test_empty_dir_in_memory_has_the_size_it_was_given(cluster: ProcessCluster) -> None:
    """It is a tmpfs that fills up at its size limit and is unmounted with its pod."""
    script = f"stat -f -c %T {PLACE}; df -k {PLACE} | awk 'END {{print $2}}'; head -c 3M /dev/zero 2>&1 >{PLACE}/big || echo full"
    source = {"medium": "Memory", "sizeLimit": "2Mi"}
    kind, size, *_, full = said(cluster, pod("memory", mount(script), **volume(emptyDir=source)))
    assert (kind, size, full) == ("tmpfs", "2048", "full")
    uid = cluster.pod("memory")["metadata"]["uid"]
    cluster.kubectl("delete", "pod", "memory")
    assert uid not in Path("/proc/self/mountinfo").read_text()


@needs_ordinary_user
def test_empty_dir_in_memory_is_on_disk_without_the_right_to_mount(cluster: ProcessCluster) -> None:
    """The pod runs, and a MemoryMediumUnavailable event is emitted."""
    cluster.run(pod("memory", mount(f"echo word >{PLACE}/file; {FOREVER}"), **volume(emptyDir={"medium": "Memory"})))
    assert 'volume "data" is on disk' in cluster.until_said("memory", "MemoryMediumUnavailable", "")


def test_host_path_is_what_its_type_says(cluster: ProcessCluster, tmp_path: Path) -> None:
    """Existing paths are mounted, and the `OrCreate` types create missing ones."""
    (tmp_path / "file").write_text("content\n")
    types = {
        "Directory": ".",
        "DirectoryOrCreate": "made/deep",
        "File": "file",
        "FileOrCreate": "made-file",
        "": "file",
    }
    volumes, mounts = [], []
    for number, (type_name, path) in enumerate(types.items()):
        volumes.append({"name": f"v{number}", "hostPath": {"path": str(tmp_path / path), "type": type_name}})
        mounts.append({"name": f"v{number}", "mountPath": f"/no/such/{number}"})
    script = "cat /no/such/0/file /no/such/2 /no/such/4; stat -c %F /no/such/1 /no/such/3; echo out >/no/such/3"
    told = said(cluster, pod("host-paths", shell(script, volumeMounts=mounts), volumes=volumes))
    assert told == ["content"] * 3 + ["directory", "regular empty file"]
    assert (tmp_path / "made/deep").is_dir()
    assert (tmp_path / "made-file").read_text() == "out\n"


WRONG_TYPES = {
    "Directory": ("file", "is not a directory"),
    "File": ("", "is not a file"),
    "Socket": ("file", "is not a socket file"),
    "CharDevice": ("file", "is not a character device"),
    "BlockDevice": ("file", "is not a block device"),
}


def test_host_path_of_another_type_is_reported(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The container stays in ContainerCreating, and an event has the reason."""
    (tmp_path / "file").touch()
    for type_name, (path, _) in WRONG_TYPES.items():
        source = volume(hostPath={"path": f"{tmp_path}/{path}", "type": type_name})
        cluster.create(pod(f"wrong-{type_name.lower()}", mount(FOREVER), **source))
    for type_name, (_, message) in WRONG_TYPES.items():
        name = f"wrong-{type_name.lower()}"
        told = cluster.until_said(
            name, "FailedMount", 'MountVolume.SetUp failed for volume "data" : hostPath type check'
        )
        assert told.endswith(message)
        status = cluster.pod(name)["status"]["containerStatuses"][0]
        assert status["state"]["waiting"]["reason"] == "ContainerCreating"


def test_config_map_and_secret_become_files(cluster: ProcessCluster) -> None:
    """All or selected keys become files with their paths and modes; an optional source may be missing."""
    cluster.kubectl("create", "configmap", "words", "--from-literal=one=1", "--from-literal=two=2")
    cluster.kubectl("create", "secret", "generic", "keys", "--from-literal=password=hidden")
    volumes = [
        {"name": "all", "configMap": {"name": "words"}},
        {"name": "some", "configMap": {"name": "words", "items": [{"key": "two", "path": "sub/zwei", "mode": 0o400}]}},
        {"name": "secret", "secret": {"secretName": "keys", "defaultMode": 0o440}},
        {"name": "missing", "configMap": {"name": "nowhere", "optional": True}},
    ]
    mounts = [{"name": one["name"], "mountPath": f"/no/such/{one['name']}", "readOnly": True} for one in volumes]
    files = "cd /no/such; ls all some/sub secret missing; tail -n 1 all/one; stat -L -c %a all/one some/sub/zwei"
    script = f"{files}; cat some/sub/zwei secret/password; stat -L -c %a secret/password; touch all/new 2>/dev/null || echo read-only"
    main = shell(script, volumeMounts=mounts, env=[{"name": "LC_ALL", "value": "C"}])
    listed = ["all:", "one", "two", "", "missing:", "", "secret:", "password", "", "some/sub:", "zwei"]
    told = said(cluster, pod("filed", main, volumes=volumes))
    assert told == [*listed, "1644", "400", "2hidden440", "read-only"]


def test_downward_api_gives_fields_as_files_and_environment(cluster: ProcessCluster) -> None:
    fields = {"name": "metadata.name", "labels": "metadata.labels", "color": "metadata.labels['color']"}
    items: list[dict[str, Any]] = [{"path": path, "fieldRef": {"fieldPath": field}} for path, field in fields.items()]
    limit = {"resource": "limits.memory", "containerName": "main", "divisor": "1Mi"}
    items.append({"path": "limit", "resourceFieldRef": limit})
    script = f"cd {PLACE}; for file in name labels color limit; do cat $file; echo; done; echo $WHERE $MEMORY"
    env = [
        {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]
    main = {**mount(script), "env": env, "resources": {"limits": {"memory": "512Mi"}}}
    labels = {"color": "red", "shape": "round"}
    told = said(cluster, pod("self-aware", main, labels=labels, **volume(downwardAPI={"items": items})))
    assert told == ["self-aware", 'color="red"', 'shape="round"', "red", "512", "node-1 512"]


def test_projected_token_is_good_at_the_api_server(cluster: ProcessCluster, tmp_path: Path) -> None:
    """A projected volume with all sources; the API server authenticates its token as the pod's service account."""
    cluster.kubectl("create", "serviceaccount", "worker")
    cluster.kubectl("create", "configmap", "projected-words", "--from-literal=one=1")
    cluster.kubectl("create", "secret", "generic", "projected-keys", "--from-literal=password=hidden")
    sources: list[dict[str, Any]] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
        {"configMap": {"name": "projected-words"}},
        {"secret": {"name": "projected-keys"}},
        {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    script = f"cd {PLACE}; cat token; echo; cat one password name; echo; stat -L -c %a token"
    document = pod("projected", mount(script), serviceAccountName="worker", **volume(projected={"sources": sources}))
    token, contents, mode = said(cluster, document)
    assert (contents, mode) == ("1hiddenprojected", "644")
    kubeconfig = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
    kubeconfig["users"][0]["user"] = {"token": token}
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    worker = Kubectl(tmp_path / "kubeconfig", "default", tmp_path / "cache")
    known = worker.json("auth", "whoami")["status"]["userInfo"]
    assert known["username"] == "system:serviceaccount:default:worker"
    assert known["extra"]["authentication.kubernetes.io/pod-name"] == ["projected"]


def test_changes_reach_running_containers(cluster: ProcessCluster) -> None:
    """Updates of a config map, a secret and the pod's labels change the mounted files."""
    cluster.kubectl("create", "configmap", "live", "--from-literal=key=old")
    cluster.kubectl("create", "secret", "generic", "live", "--from-literal=key=old")
    labels = {"items": [{"path": "key", "fieldRef": {"fieldPath": "metadata.labels['key']"}}]}
    volumes: list[dict[str, Any]] = [
        {"name": "words", "configMap": {"name": "live"}},
        {"name": "secrets", "secret": {"secretName": "live"}},
        {"name": "labels", "downwardAPI": labels},
    ]
    containers = [
        shell(
            f"until grep -q new {PLACE}/key; do sleep 0.05; done; echo $(cat {PLACE}/key)",
            one["name"],
            volumeMounts=[{"name": one["name"], "mountPath": PLACE}],
        )
        for one in volumes
    ]
    cluster.run(pod("follower", *containers, labels={"key": "old"}, volumes=volumes, restartPolicy="Never"))
    cluster.kubectl("patch", "configmap", "live", "-p", '{"data":{"key":"new words"}}')
    cluster.kubectl("patch", "secret", "live", "-p", '{"stringData":{"key":"new secret"}}')
    cluster.kubectl("label", "pod", "follower", "--overwrite", "key=new-label")
    cluster.until_field(".status.phase", "Succeeded", "follower")
    told = cluster.kubectl("logs", "follower", "--all-containers", "--prefix").splitlines()
    assert sorted(line.partition("] ")[2] for line in told) == ["new secret", "new words", "new-label"]


def test_pod_starts_when_the_config_map_it_waits_for_is_there(cluster: ProcessCluster) -> None:
    """Until then a FailedMount event names the missing config map."""
    cluster.create(pod("waits", mount(FOREVER), **volume(configMap={"name": "later"})))
    cluster.until_said("waits", "FailedMount", 'configmap "later" not found')
    cluster.kubectl("create", "configmap", "later", "--from-literal=key=value")
    cluster.until("condition=Ready", "waits")
    assert cluster.kubectl("exec", "waits", "--", "cat", f"{PLACE}/key") == "value"


def with_sub_path(name: str, folder: Path) -> dict[str, Any]:
    """A pod that writes a file to a subPathExpr with the pod's name."""
    env = [{"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    main = {**mount(f"echo mine >{PLACE}/file", subPathExpr="of/$(WHO)"), "env": env}
    return pod(name, main, restartPolicy="Never", **volume(hostPath={"path": str(folder)}))


@needs_root
def test_sub_path_shows_a_part_of_a_volume(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The folder is created if needed, and its name may come from the environment."""
    cluster.finish(with_sub_path("part", tmp_path))
    assert (tmp_path / "of/part/file").read_text() == "mine\n"


@needs_ordinary_user
def test_sub_path_is_refused_without_the_right_to_mount(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The container waits with CreateContainerConfigError and the reason."""
    cluster.create(with_sub_path("part", tmp_path))
    cluster.until_field(".status.containerStatuses[0].state.waiting.reason", "CreateContainerConfigError", "part")
    told = cluster.pod("part")["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
    assert told.endswith('volumeMount "data" of container "main": this node has no right to mount')
