"""One cluster for all tests of a module: an API server, a node that runs processes, and kubectl."""

from collections.abc import Iterator

import pytest

from process_cluster import ProcessCluster, process_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with process_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made
