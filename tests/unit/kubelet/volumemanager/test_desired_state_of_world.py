"""Which volumes a pod needs, and which ones this node does not support."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import EmptyDirVolumeSource
from pykubelet.kubelet.volumemanager.desired_state_of_world import (
    Plugin,
    memory_size_bytes,
    nested_mount_points,
    plan_volumes,
)
from volume_pods import pod_with

NODE = {"memory": "4Gi"}
MI = 2**20
KINDS: list[Any] = [
    ({"emptyDir": {}}, Plugin.EMPTY_DIR, False),
    ({"emptyDir": {"medium": "Memory"}}, Plugin.EMPTY_DIR, True),
    ({"hostPath": {"path": "/x"}}, Plugin.HOST_PATH, False),
    ({"configMap": {"name": "c"}}, Plugin.CONFIG_MAP, False),
    ({"secret": {"secretName": "s"}}, Plugin.SECRET, True),
    ({"downwardAPI": {}}, Plugin.DOWNWARD_API, True),
    ({"projected": {}}, Plugin.PROJECTED, True),
]
REFUSED: list[Any] = [
    ({"nfs": {"server": "s", "path": "/"}}, "nfs volumes are not supported by this node"),
    ({"nfs": {"server": "s", "path": "/"}}, "nfs volumes are not supported by this node"),
    ({"gitRepo": {"repository": "https://example.com/a"}}, "gitRepo volumes are not supported by this node"),
    ({"csi": {"driver": "d"}}, "csi volumes are not supported by this node"),
    ({"image": {"reference": "i"}}, "image volumes are not supported by this node"),
    (
        {"emptyDir": {"medium": "HugePages-2Mi"}},
        "emptyDir volumes of medium HugePages-2Mi are not supported by this node",
    ),
    ({"emptyDir": {"medium": "Tape"}}, 'unknown storage medium "Tape"'),
    ({}, "unknown volumes are not supported by this node"),
]


@pytest.mark.parametrize(("source", "plugin", "in_memory"), KINDS)
def test_volume_is_planned_by_its_kind(source: dict[str, Any], plugin: Plugin, in_memory: bool) -> None:
    """Secret data and data of the pod's API object stay in memory."""
    plan = plan_volumes(pod_with({"name": "v", **source}), NODE)
    assert not plan.refusals
    assert [(found.name, found.plugin, found.in_memory) for found in plan.volumes] == [("v", plugin, in_memory)]


@pytest.mark.parametrize(("source", "reason"), REFUSED)
def test_volume_is_refused_when_this_node_cannot_make_it(source: dict[str, Any], reason: str) -> None:
    """The reason names the field of the manifest; other volumes are still planned."""
    plan = plan_volumes(pod_with({"name": "v", **source}, {"name": "w", "emptyDir": {}}), NODE)
    assert plan.refusals == {"v": reason}
    assert [found.name for found in plan.volumes] == ["w"]


def test_volume_without_mounts_is_left_out() -> None:
    """This includes unsupported volumes; a mount of any kind of container counts."""
    volumes: list[dict[str, Any]] = [{"name": name, "emptyDir": {}} for name in ("a", "b", "c", "d")] + [
        {"name": "e", "nfs": {"path": "/"}}
    ]
    mounts = {name: [{"name": name, "mountPath": "/m"}] for name in "abc"}
    pod = pod_with(
        *volumes,
        containers=[{"name": "main", "volumeMounts": mounts["a"]}],
        initContainers=[{"name": "early", "volumeMounts": mounts["b"]}],
        ephemeralContainers=[{"name": "debug", "volumeMounts": mounts["c"]}],
    )
    plan = plan_volumes(pod, NODE)
    assert [found.name for found in plan.volumes] == ["a", "b", "c"]
    assert plan.refusals == {}


def test_block_volume_is_refused() -> None:
    """A block device cannot replace a folder."""
    containers = [{"name": "main", "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}]
    plan = plan_volumes(pod_with({"name": "v", "emptyDir": {}}, containers=containers), NODE)
    assert plan.refusals == {"v": "block volumes are not supported by this node"}


NESTED: list[Any] = [
    (["/dir", "/dir/nested"], ("nested",)),
    (
        ["/dir", "/dir/nested", "/dir/nested/double", "/dir/nested-vol", "/dir/nested2"],
        ("nested", "nested-vol", "nested2"),
    ),
    (["/dir", "/dir2/x"], ()),
    (["/dir/", "/dir/./a/b"], ("a/b",)),
    (["/", "/etc"], ("etc",)),
    (["/dir", "/dir"], ()),
]


@pytest.mark.parametrize(("paths", "expected"), NESTED)
def test_nested_mount_points_are_found(paths: list[str], expected: tuple[str, ...]) -> None:
    """Deeper paths within another nested one need no folder."""
    mounts = [{"name": "v" if index == 0 else f"w{index}", "mountPath": path} for index, path in enumerate(paths)]
    pod = pod_with({"name": "v", "configMap": {"name": "c"}}, containers=[{"name": "main", "volumeMounts": mounts}])
    assert nested_mount_points(pod, "v") == expected
    assert plan_volumes(pod, NODE).volumes[0].mount_points == expected


def limited(*memory: str | None) -> list[dict[str, Any]]:
    return [
        {"name": f"c{index}", "resources": {"limits": {"memory": text} if text else {}}}
        for index, text in enumerate(memory)
    ]


SIZES: list[Any] = [
    (None, limited(None), [], {}, NODE, 4096 * MI),
    (None, limited(None), [], {}, {}, 0),
    ("64Mi", limited(None), [], {}, NODE, 64 * MI),
    ("64Mi", limited(None), [], {}, {}, 64 * MI),
    ("8Gi", limited(None), [], {}, NODE, 4096 * MI),
    ("1Gi", limited("100Mi", "28Mi"), [], {}, NODE, 128 * MI),
    ("1Gi", limited("100Mi", None), [], {}, NODE, 1024 * MI),
    (None, limited("100Mi"), limited("300Mi"), {}, NODE, 300 * MI),
    (None, limited("100Mi"), [{**limited("50Mi")[0], "restartPolicy": "Always"}, *limited("80Mi")], {}, NODE, 150 * MI),
    (None, limited("100Mi"), [], {"limits": {"memory": "1Gi"}}, NODE, 1024 * MI),
]


@pytest.mark.parametrize(("asked", "containers", "init", "whole", "node", "expected"), SIZES)
def test_size_in_memory_is_the_tightest_bound(
    asked: str | None,
    containers: list[Any],
    init: list[Any],
    whole: dict[str, Any],
    node: dict[str, str],
    expected: int,
) -> None:
    """The limits of the volume, of the pod if all its containers have one, and of the node."""
    pod = pod_with(containers=containers, initContainers=init, resources=whole)
    assert memory_size_bytes(pod, EmptyDirVolumeSource(medium="Memory", size_limit=asked), node) == expected


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["/a", "/a/b", "/a/b/c", "/a/d", "/e", "/a/b/../f"]), min_size=1, max_size=5, unique=True)
)
def test_nested_mount_points_never_lead_out(paths: list[str]) -> None:
    """They are relative, and none is within another one."""
    mounts = [{"name": "v" if index == 0 else "w", "mountPath": path} for index, path in enumerate(paths)]
    found = nested_mount_points(pod_with(containers=[{"name": "main", "volumeMounts": mounts}]), "v")
    assert not [path for path in found if path.startswith("/") or ".." in path.split("/")]
    assert not [path for path in found for other in found if path.startswith(f"{other}/")]
