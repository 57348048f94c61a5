"""Every container of a pod, with its path.

Upstream: VisitContainersWithPath in pkg/apis/core/pods/helpers.go
"""

from collections.abc import Iterator

from pykubelet.api.wire import Document


def containers_with_paths(spec: Document, path: str) -> Iterator[tuple[Document, str]]:
    """Every container of the pod with its path: init, regular, ephemeral."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind, ())):
            yield container, f"{path}.{kind}[{index}]"
