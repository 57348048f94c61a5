"""One cluster for all tests of a module: an API server, a node that runs its containers with containerd, and kubectl."""

from collections.abc import Iterator

import pytest

from containerd_lab import ContainerdLab
from cri_lab import node_runtime
from process_cluster import ProcessCluster, process_cluster


@pytest.fixture(scope="module")
def cluster(containerd: ContainerdLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster"), node_runtime(containerd)) as made:
        yield made
