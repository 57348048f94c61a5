"""Pods for the tests of the pod sources."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.api.generated.core import Container, Pod, PodSpec, PodStatus
from pykubelet.api.generated.meta import ObjectMeta

MakePod = Callable[..., Pod]


@pytest.fixture(scope="session")
def make_pod() -> MakePod:
    """Builds a pod from a name and optional fields."""

    def make(name: str = "web", uid: str = "", *, image: str = "v1", phase: str = "", **metadata: Any) -> Pod:
        return Pod(
            metadata=ObjectMeta(name=name, namespace="ns", uid=uid or name, **metadata),
            spec=PodSpec(containers=(Container(name="c", image=image),)),
            status=PodStatus(phase=phase),
        )

    return make
