"""Classes of image sizes, by which pulls are told apart in metrics.

Pure. Upstream: imageSizeBuckets in pkg/kubelet/metrics/metrics.go
"""

from bisect import bisect_left

_MEGA, _GIGA = 1 << 20, 1 << 30
_ABOVE = (
    *(10 * _MEGA, 100 * _MEGA, 500 * _MEGA, _GIGA),
    *(5 * _GIGA, 10 * _GIGA, 20 * _GIGA, 30 * _GIGA, 40 * _GIGA, 60 * _GIGA, 100 * _GIGA),
)
_NAMES = (
    *("0-10MB", "10MB-100MB", "100MB-500MB", "500MB-1GB", "1GB-5GB", "5GB-10GB"),
    *("10GB-20GB", "20GB-30GB", "30GB-40GB", "40GB-60GB", "60GB-100GB", "GT100GB"),
)


def size_name(size_bytes: int) -> str:
    """The class of an image of this size."""
    return _NAMES[bisect_left(_ABOVE, size_bytes)]
