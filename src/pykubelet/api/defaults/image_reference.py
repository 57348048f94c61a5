"""When to pull an image that says nothing about it: Always for `latest`, said or implied.

An image that is no valid reference has no tag, so it counts as not the latest.

Upstream: SetDefaults_Container in pkg/apis/core/v1/defaults.go
"""

from pykubelet.api.image_names import LATEST, parse_image_name


def default_pull_policy(image: str) -> str:
    """The pull policy of a container that names none."""
    try:
        return "Always" if parse_image_name(image).tag == LATEST else "IfNotPresent"
    except ValueError:
        return "IfNotPresent"
