"""Whether an image must be pulled, and what users are told about it: decisions and words.

Values in, values out; pure. Upstream: pkg/kubelet/images/{image_manager,types}.go.
"""

from enum import Enum, auto

from pykubelet.api.durations import format_duration
from pykubelet.api.validation.field_errors import go_quote

ERR_IMAGE_PULL = "ErrImagePull"
ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
IMAGE_INSPECT_ERROR = "ImageInspectError"
IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
INVALID_IMAGE_NAME = "InvalidImageName"

# What a runtime's error begins with where it knows more than that the pull failed.
_KNOWN_CAUSES = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


class ImageStep(Enum):
    """What to do about a container's image."""

    USE = auto()
    PULL = auto()
    REFUSE = auto()


def must_look(policy: str) -> bool:
    """Whether it matters if the image is here already; a policy that is none of the three pulls."""
    return policy in {"IfNotPresent", "Never"}


def image_step(policy: str, *, is_here: bool) -> ImageStep:
    """The step for an image; `is_here` says nothing if nobody had to look."""
    if not must_look(policy):
        return ImageStep.PULL
    if is_here:
        return ImageStep.USE
    return ImageStep.REFUSE if policy == "Never" else ImageStep.PULL


def pull_failure(image: str, error: str, reason: str = "") -> tuple[str, str]:
    """The waiting reason and the message for a pull that failed; a reason the runtime gave goes first."""
    for known, cause in _KNOWN_CAUSES.items():
        if error.startswith(known):
            return known, f"image pull failed for {image} because {cause}{error.removeprefix(known)}"
    return reason or ERR_IMAGE_PULL, error


def invalid_name_text(image: str, error: str) -> str:
    return f"Failed to apply default image tag {go_quote(image)}: {error}"


def not_inspected_text(image: str, error: str) -> str:
    return f"Failed to inspect image {go_quote(image)}: {error}"


def never_pulled_text(image: str) -> str:
    return f"Container image {go_quote(image)} is not present with pull policy of Never"


def already_here_text(image: str) -> str:
    return f"Container image {go_quote(image)} already present on machine"


def pulling_text(image: str) -> str:
    return f"Pulling image {go_quote(image)}"


def pulled_text(image: str, *, pull_seconds: float, total_seconds: float, size_bytes: int) -> str:
    """Both durations in whole milliseconds: that of the pull itself, and that with the wait before it."""
    pull, total = (format_duration(int(seconds * 1000) / 1000) for seconds in (pull_seconds, total_seconds))
    return f"Successfully pulled image {go_quote(image)} in {pull} ({total} including waiting). Image size: {size_bytes} bytes."


def not_pulled_text(image: str, error: str) -> str:
    return f"Failed to pull image {go_quote(image)}: {error}"


def back_off_text(image: str) -> str:
    return f"Back-off pulling image {go_quote(image)}"
