"""Eviction of pods that exceed their local storage limits."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import EmptyDirVolumeSource, Pod, ResourceRequirements, Volume
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.eviction.eviction_manager import is_limited, over_limits
from pykubelet.kubelet.eviction.pod_usage import ContainerUsage, DiskUsage, PodUsage
from pykubelet.testing.build import container, pod, static_pod


def limited(limit: str | None = None, *, size: str | None = None, medium: str = "", **fields: Any) -> Pod:
    """A pod with a limit for its container, or for its volume."""
    main = container(resources=ResourceRequirements(limits={"ephemeral-storage": limit} if limit else {}))
    scratch = Volume(name="scratch", empty_dir=EmptyDirVolumeSource(size_limit=size, medium=medium))
    return pod(containers=[main, container("side")], volumes=(scratch,), **fields)


def used(*, volume: int = 0, layer: int = 0, logs: int = 0, side: int = 0, own: int = 0) -> PodUsage:
    return PodUsage(
        containers={
            "main": ContainerUsage(layer=DiskUsage(layer), logs=DiskUsage(logs)),
            "side": ContainerUsage(layer=DiskUsage(side)),
        },
        volumes={"scratch": DiskUsage(volume)},
        own_files=DiskUsage(own),
    )


def told(one: Pod, use: PodUsage, *, has_image_fs: bool = False) -> str:
    found = over_limits([one], {PodUid(one.metadata.uid): use}, has_image_fs=has_image_fs)
    return "".join(f"{each.signal}: {each.message}" for each in found)


VOLUME = 'emptydirfs.limit: Usage of EmptyDir volume "scratch" exceeds the limit "1Ki". '
POD = "ephemeralpodfs.limit: Pod ephemeral local storage usage exceeds the total limit of containers 100. "


@pytest.mark.parametrize(
    ("one", "use", "expected"),
    [
        (limited(size="1Ki"), used(volume=1025), VOLUME),
        (limited(size="1Ki"), used(volume=1024), ""),
        (limited(size="1Ki", medium="Memory"), used(volume=1025), VOLUME),
        (limited(size="0"), used(volume=1025), ""),
        (limited("100"), used(layer=40, logs=40, own=21), POD),
        (limited("100"), used(volume=101), POD),
        (limited("100", medium="Memory"), used(volume=101), ""),
        (limited("100"), used(layer=1, side=100), POD),
        (limited("100"), used(layer=40, logs=40, own=20), ""),
        (limited("100", overhead={"ephemeral-storage": "10"}), used(own=105), ""),
        (limited(), used(volume=10**9), ""),
        (limited("100", size="1Ki"), used(volume=2000), VOLUME),
    ],
    ids=[
        "volume",
        "volume full",
        "volume in memory",
        "no limit is 0",
        "whole pod",
        "volume counts",
        "memory does not",
        "others count",
        "pod full",
        "overhead",
        "no limits",
        "volume first",
    ],
)
def test_pod_above_a_limit_is_evicted(one: Pod, use: PodUsage, expected: str) -> None:
    """Usage equal to the limit is allowed; messages are upstream's."""
    assert told(one, use) == expected


def test_container_beyond_its_own_limit_takes_its_pod_along() -> None:
    """Its writable layer counts only if it is on the node's disk. A sidecar's higher limit does not help."""
    side = container("side", resources=ResourceRequirements(limits={"ephemeral-storage": "1Gi"}))
    main = container(resources=ResourceRequirements(limits={"ephemeral-storage": "100"}))
    web = pod(containers=[main, side])
    message = 'ephemeralcontainerfs.limit: Container main exceeded its local ephemeral storage limit "100". '
    assert told(web, used(layer=60, logs=60)) == message
    assert told(web, used(layer=60, logs=60), has_image_fs=True) == ""
    assert told(web, used(logs=101), has_image_fs=True) == message


def test_critical_pods_and_those_not_measured_stay() -> None:
    """Critical pods are not even measured."""
    scratch = (Volume(name="scratch", empty_dir=EmptyDirVolumeSource(size_limit="1Ki")),)
    static = static_pod(volumes=scratch)
    assert told(static, used(volume=5000)) == ""
    assert over_limits([limited(size="1Ki")], {}, has_image_fs=False) == ()
    assert [is_limited(one) for one in (static, limited(size="1Ki"), limited("1"), limited())] == [
        False,
        True,
        True,
        False,
    ]


@settings(max_examples=60)
@given(limit=st.integers(1, 50), sizes=st.tuples(*[st.integers(0, 40)] * 5))
def test_pod_within_its_total_limit_is_not_evicted(limit: int, sizes: tuple[int, ...]) -> None:
    """Usage is the sum of volumes, layers, logs and the pod's own files."""
    volume, layer, logs, side, own = sizes
    message = told(limited(str(limit)), used(volume=volume, layer=layer, logs=logs, side=side, own=own))
    assert bool(message) == (sum(sizes) > limit)
