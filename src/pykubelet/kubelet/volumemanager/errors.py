"""What can be wrong with a pod's volumes and with the set-up of its containers, in words for its user."""

from collections.abc import Iterable, Sequence


class ContainerConfigError(ValueError):
    """A container cannot be set up as its pod asks; the message goes with the reason CreateContainerConfigError."""


class VolumeError(ValueError):
    """A volume cannot be made ready, now at least."""


class VolumesNotReady(Exception):
    """Some volumes that a pod's containers mount are not there; `Unable to attach or mount volumes: ` goes before it."""

    def __init__(self, *, unmounted: Iterable[str], refused: Iterable[str], cause: str) -> None:
        super().__init__(
            f"unmounted volumes={_list(unmounted)}, unattached volumes=[], "
            f"failed to process volumes={_list(refused)}: {cause}"
        )


class VolumesNotRemoved(Exception):
    """Some of what a pod left on disk is still there."""


def aggregate(messages: Sequence[str]) -> str:
    """Several complaints as one, each only once: in brackets if they are more than one, as Go aggregates errors."""
    texts = list(dict.fromkeys(messages))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _list(names: Iterable[str]) -> str:
    return f"[{' '.join(sorted(names))}]"
