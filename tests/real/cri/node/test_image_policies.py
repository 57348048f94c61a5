"""Image pull policies on containerd: when an image is pulled, and which reasons and events a missing one gives."""

from typing import Any

import pytest

from oci_images import BUSYBOX
from process_cluster import ProcessCluster, free_port, pod, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"


def with_image(image: str, policy: str) -> dict[str, Any]:
    return shell(FOREVER) | {"image": image, "imagePullPolicy": policy}


def waiting(cluster: ProcessCluster, name: str, reason: str) -> str:
    """Wait until the container waits with this reason, and return its message."""
    words = ".status.containerStatuses[0].state.waiting"
    told = cluster.until_seen(f"{reason} ", f"{{{words}.reason}} {{{words}.message}}", "pod", name)
    return told.removeprefix(f"{reason} ")


@pytest.mark.parametrize("policy", ["Never", "IfNotPresent"])
def test_image_that_is_there_is_not_pulled(cluster: ProcessCluster, policy: str) -> None:
    """No registry serves this image, so a pull would fail."""
    name = f"present-{policy.lower()}"
    shown = cluster.run(pod(name, with_image(BUSYBOX, policy)))
    status = shown["status"]["containerStatuses"][0]
    assert (status["image"], status["imageID"].partition(":")[0]) == (BUSYBOX, "sha256")
    assert cluster.until_said(name, "Pulled", "") == f'Container image "{BUSYBOX}" already present on machine'


def test_image_that_is_missing_is_never_pulled_if_the_pod_says_so(cluster: ProcessCluster) -> None:
    """With pull policy Never the container waits with ErrImageNeverPull."""
    image = "example.test/missing:1"
    cluster.create(pod("never", with_image(image, "Never")))
    words = f'Container image "{image}" is not present with pull policy of Never'
    assert waiting(cluster, "never", "ErrImageNeverPull") == words
    assert cluster.until_said("never", "ErrImageNeverPull", "") == words
    assert cluster.until_said("never", "Failed", "") == "Error: ErrImageNeverPull"


def test_failed_pull_is_reported_and_backs_off(cluster: ProcessCluster) -> None:
    """ErrImagePull has containerd's reason, and ImagePullBackOff repeats it."""
    # containerd uses no TLS for registries on loopback; nothing listens on this port.
    image = f"127.0.0.1:{free_port()}/missing:1"
    names = {policy: f"pull-{policy.lower()}" for policy in ("IfNotPresent", "Always")}
    cluster.create(*(pod(name, with_image(image, policy)) for policy, name in names.items()))
    reason = f'failed to pull and unpack image "{image}": failed to resolve reference "{image}": failed to do request: '
    backing_off = f'Back-off pulling image "{image}"'
    for name in names.values():
        told = cluster.until_said(name, "Failed", "Failed to pull").removeprefix(f'Failed to pull image "{image}": ')
        assert told.startswith(reason)
        assert told.endswith("connect: connection refused")
        assert waiting(cluster, name, "ErrImagePull") == told
        assert cluster.until_said(name, "Failed", "Error: ErrImagePull") == "Error: ErrImagePull"
        assert cluster.until_said(name, "Pulling", "") == f'Pulling image "{image}"'
    for name in names.values():
        assert waiting(cluster, name, "ImagePullBackOff").startswith(f"{backing_off}: ErrImagePull: {reason}")
        assert cluster.until_said(name, "Failed", "Error: ImagePullBackOff") == "Error: ImagePullBackOff"
        assert cluster.until_said(name, "BackOff", "") == backing_off


def test_image_is_pulled_always_even_if_it_is_there(cluster: ProcessCluster) -> None:
    """The container waits with ErrImagePull, since no registry serves the image."""
    cluster.create(pod("always", with_image(BUSYBOX, "Always")))
    assert waiting(cluster, "always", "ErrImagePull").startswith(f'failed to pull and unpack image "{BUSYBOX}": ')


def test_invalid_image_name_is_reported(cluster: ProcessCluster) -> None:
    """The container waits with InvalidImageName, and an InspectFailed event has the same message."""
    cluster.create(pod("nonsense", with_image("No:Such:Image", "IfNotPresent")))
    told = waiting(cluster, "nonsense", "InvalidImageName")
    assert told.startswith('Failed to apply default image tag "No:Such:Image": ')
    assert cluster.until_said("nonsense", "InspectFailed", "") == told
