"""What the subresource `resize` may change: cpu and memory of regular containers and of sidecars."""

from typing import Any

import pytest

from pykubelet.kinds.pod.defaults import default_pod
from pykubelet.kinds.pod.update import pod_resize_errors


def pod(image: str = "x", **cpu: str) -> dict[str, Any]:
    """A pod with a sidecar, an init container and a regular one, and the cpu requests of each."""

    def container(name: str, **fields: Any) -> dict[str, Any]:
        return {"name": name, "image": image, "resources": {"requests": {"cpu": cpu.get(name, "1")}}, **fields}

    inits = [container("side", restartPolicy="Always"), container("init")]
    metadata = {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "5"}
    spec = {"initContainers": inits, "containers": [container("main")]}
    return {**default_pod({"metadata": metadata, "spec": spec}), "status": {}}


@pytest.mark.parametrize(
    ("new", "errors"),
    [
        pytest.param(pod(), [], id="nothing"),
        pytest.param(pod(main="2"), [], id="regular container"),
        pytest.param(pod(side="2"), [], id="sidecar"),
        pytest.param(
            pod(init="2"),
            ["spec: Forbidden: resources for non-sidecar init containers are immutable"],
            id="init container",
        ),
        pytest.param(
            pod("y"),
            [
                "spec: Forbidden: only cpu and memory resources are mutable",
                "spec: Forbidden: only cpu and memory resources for sidecar containers are mutable",
                "spec: Forbidden: resources for non-sidecar init containers are immutable",
            ],
            id="image",
        ),
    ],
)
def test_resize_changes_amounts_of_containers_that_stay(new: dict[str, Any], errors: list[str]) -> None:
    assert [str(error) for error in pod_resize_errors(new, pod())] == errors
