"""Objects that a pod names, and whether they could be had.

Upstream: the uses of configMapManager and secretManager in pkg/kubelet/kubelet_pods.go and pkg/volume/projected
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pykubelet.api.errors import NotFound
from pykubelet.api.generated.core import ConfigMap, Secret

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """What was found under the names a pod gives, all in its namespace: the object, or why there is none."""

    config_maps: Mapping[str, ConfigMap | Exception] = field(default_factory=dict)
    secrets: Mapping[str, Secret | Exception] = field(default_factory=dict)


def found(objects: Mapping[str, T | Exception], name: str, *, optional: bool) -> T | None:
    """The object of a name; None if there is none and none is needed, otherwise what went wrong is raised."""
    result = objects[name]
    if isinstance(result, NotFound) and optional:
        return None
    if isinstance(result, Exception):
        raise result
    return result
