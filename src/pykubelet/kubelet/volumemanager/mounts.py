"""Resolves the volume mounts of a container as far as no disk access is needed.

Upstream: pkg/kubelet/kubelet_pods.go, pkg/kubelet/container/helpers.go
"""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from pykubelet.api.generated.core import Pod, VolumeMount
from pykubelet.api.pods import AnyContainer
from pykubelet.kubelet.expansion import expand
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError

HOSTS_PATH = "/etc/hosts"
_PROPAGATIONS = frozenset({"None", "HostToContainer", "Bidirectional"})


def expand_sub_path(expression: str, environment: Mapping[str, str]) -> str:
    """Expand variable references in a subPathExpr; raises ContainerConfigError if a variable is missing or empty.

    Raises ExpansionTooLongError as `expand` does.
    """
    missing: set[str] = set()

    def value_of(name: str) -> str:
        if not environment.get(name):
            missing.add(name)
        return environment.get(name, "")

    expanded = expand(expression, value_of)
    if missing:
        raise ContainerConfigError(f"missing value for {', '.join(sorted(missing))}")
    return expanded


@dataclass(frozen=True, slots=True)
class ReadyVolume:
    """A volume that is ready: its path, and whether containers may only read it."""

    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMount:
    """A volume, or a path below it, to be mounted into a container."""

    volume: str
    index: int
    """The position in the container's list of mounts, starting at 0."""
    volume_path: str
    sub_path: str
    container_path: str
    read_only: bool
    propagation: str


def plan_mounts(
    container: AnyContainer, volumes: Mapping[str, ReadyVolume], environment: Mapping[str, str]
) -> tuple[PlannedMount, ...]:
    """The mounts of a container; raises ContainerConfigError if one is impossible."""
    if device := next(iter(container.volume_devices), None):
        raise ContainerConfigError(f'cannot find volume "{device.name}" to pass into container "{container.name}"')
    return tuple(
        _planned(index, mount, container.name, volumes, environment)
        for index, mount in enumerate(container.volume_mounts)
    )


def wants_hosts_file(pod: Pod, container: AnyContainer, pod_ips: tuple[str, ...]) -> bool:
    """Whether a container gets the pod's hosts file; not if it mounts something there itself."""
    has_own = any(mount.mount_path == HOSTS_PATH for mount in container.volume_mounts)
    return bool(pod_ips or pod.spec.host_network) and not has_own


def absolute(path: str) -> str:
    """A path in a container; a relative one starts at the root."""
    return path if path.startswith("/") else f"/{path}"


def _planned(
    index: int,
    mount: VolumeMount,
    container: str,
    volumes: Mapping[str, ReadyVolume],
    environment: Mapping[str, str],
) -> PlannedMount:
    volume = volumes.get(mount.name)
    if volume is None:
        raise ContainerConfigError(f'cannot find volume "{mount.name}" to mount into container "{container}"')
    sub_path = expand_sub_path(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
    _check_sub_path(sub_path)
    propagation = "None" if mount.mount_propagation is None else mount.mount_propagation
    if propagation not in _PROPAGATIONS:
        raise ContainerConfigError(f'invalid MountPropagation mode: "{propagation}"')
    _check_recursive_read_only(mount)
    if "\0" in mount.mount_path:
        raise ContainerConfigError(f'the mountPath of volume "{mount.name}" must not contain a NUL byte')
    return PlannedMount(
        volume=mount.name,
        index=index,
        volume_path=volume.path,
        sub_path=posixpath.normpath(sub_path) if sub_path else "",
        container_path=absolute(mount.mount_path),
        read_only=mount.read_only or volume.read_only,
        propagation=propagation,
    )


def _check_sub_path(sub_path: str) -> None:
    if sub_path.startswith("/"):
        raise ContainerConfigError(f"error SubPath `{sub_path}` must not be an absolute path")
    if ".." in sub_path.split("/"):
        raise ContainerConfigError(f"unable to provision SubPath `{sub_path}`: must not contain '..'")
    if "\0" in sub_path:
        raise ContainerConfigError("unable to provision SubPath: must not contain a NUL byte")


def _check_recursive_read_only(mount: VolumeMount) -> None:
    """Our runtimes do not support recursive read-only mounts: IfPossible is ignored, Enabled is an error."""
    mode = mount.recursive_read_only
    if mode is None or mode == "Disabled":
        return
    words = f'volume "{mount.name}" requested recursive read-only mode, but it is not'
    problem = ""
    if not mount.read_only:
        problem = f"{words} read-only"
    elif mount.mount_propagation not in {None, "None"}:
        problem = f'{words} compatible with propagation "{mount.mount_propagation}"'
    elif mode == "Enabled":
        problem = f"{words} supported by the runtime"
    elif mode != "IfPossible":
        problem = f'unknown recursive read-only mode "{mode}"'
    if problem:
        raise ContainerConfigError(f"failed to resolve recursive read-only mode: {problem}")
