"""Replays pod lives recorded from kubelet v1.34.11 with containerd, all at once, on containerd in real time."""

import asyncio
import json
from collections.abc import Iterator

import pytest

import recorded_runs
from containerd_lab import ContainerdLab
from cri_lab import node_runtime
from oci_images import Image
from process_cluster import process_cluster
from pykubelet.api.serializer import Document
from replay_on_node import live

pytestmark = pytest.mark.timeout(300)
"""All lives together take as long as the longest one, about 40 seconds."""
IMAGES = [
    Image(name, {"Cmd": ["sh"], "Labels": {"name": name}})
    for name in ("localhost/busybox:1", "registry.k8s.io/e2e-test-images/busybox:1.36.1-1")
]
"""By these names it is the same file system, yet another image."""


def recording(name: str, _: str) -> Document:
    """The expected life, where a masked path is replaced by one inside the container."""
    recorded: Document = json.loads(json.dumps(recorded_runs.load(name)).replace("<path>", "/tmp/flag"))
    return recorded


@pytest.fixture(scope="module")
def differences(containerd: ContainerdLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """The differences of each life from its recording; all run side by side on one node."""
    containerd.add_images(IMAGES)
    folder = tmp_path_factory.mktemp("lives")
    with process_cluster(folder, node_runtime(containerd), node_name=recorded_runs.NODE) as cluster:
        yield asyncio.run(live(cluster, recording, apart_seconds=0.4))


@pytest.mark.parametrize("name", recorded_runs.NAMES)
def test_pod_lives_as_on_the_kubelet(name: str, differences: dict[str, list[str]]) -> None:
    """A pod goes through the recorded states to the recorded end, with the recorded events."""
    assert differences[name] == []
