"""Errors of volumes and of the configuration of containers, worded for users."""

from collections.abc import Iterable, Sequence


class ContainerConfigError(ValueError):
    """A container cannot be configured as specified; shown with the reason CreateContainerConfigError."""


class VolumeError(ValueError):
    """A volume cannot be made ready, at least not now."""


class VolumesNotReady(Exception):
    """Some volumes of a pod are not ready; shown after `Unable to attach or mount volumes: `."""

    def __init__(self, *, unmounted: Iterable[str], refused: Iterable[str], cause: str) -> None:
        super().__init__(
            f"unmounted volumes={_list(unmounted)}, unattached volumes=[], "
            f"failed to process volumes={_list(refused)}: {cause}"
        )


class VolumesNotRemoved(Exception):
    """Some volumes or files of a pod could not be removed."""


def aggregate(messages: Sequence[str]) -> str:
    """Several messages as one, without duplicates: in brackets if there is more than one, as Go aggregates errors."""
    texts = list(dict.fromkeys(messages))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _list(names: Iterable[str]) -> str:
    return f"[{' '.join(sorted(names))}]"
