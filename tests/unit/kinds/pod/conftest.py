"""The fixture of this folder's tests: validation errors of a pod that differs from a valid one in some fields."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.kinds.pod.defaults import default_pod
from pykubelet.kinds.pod.features import API_SERVER_OPTIONS, PodValidationOptions
from pykubelet.kinds.pod.validation import validate_pod_create

Messages = Callable[..., list[str]]


@pytest.fixture
def messages() -> Messages:
    """Returns the errors of a pod whose spec and container have these fields."""

    def ask(
        spec: dict[str, Any] | None = None,
        *,
        container: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        options: PodValidationOptions = API_SERVER_OPTIONS,
    ) -> list[str]:
        pod = {
            "metadata": {"name": "web", "namespace": "default", **(metadata or {})},
            "spec": {"containers": [{"name": "c", "image": "i:1", **(container or {})}], **(spec or {})},
        }
        return [str(error) for error in validate_pod_create(default_pod(pod), options)]

    return ask
