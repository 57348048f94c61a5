"""A runtime's figures of one container as the node's.

Pure. Upstream: makeContainerStats in pkg/kubelet/stats/cri_stats_provider.go
"""

from datetime import UTC, datetime, timedelta

from cri_api.v1 import api_pb2 as cri

from pykubelet.runtime.usage import Usage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def usage_of(stats: cri.ContainerStats) -> Usage | None:
    """What a container uses; None if nobody measured it, such as one that has ended."""
    cpu, memory, swap, layer = stats.cpu, stats.memory, stats.swap, stats.writable_layer
    at = max(cpu.timestamp, memory.timestamp)
    if at <= 0:
        return None
    return Usage(
        at=_EPOCH + timedelta(microseconds=at // 1000),
        cpu_nanoseconds=cpu.usage_core_nano_seconds.value if cpu.HasField("usage_core_nano_seconds") else None,
        memory_bytes=memory.usage_bytes.value if memory.HasField("usage_bytes") else None,
        working_set_bytes=memory.working_set_bytes.value if memory.HasField("working_set_bytes") else None,
        rss_bytes=memory.rss_bytes.value if memory.HasField("rss_bytes") else None,
        swap_bytes=swap.swap_usage_bytes.value if swap.HasField("swap_usage_bytes") else None,
        layer_bytes=layer.used_bytes.value if layer.HasField("used_bytes") else None,
        layer_inodes=layer.inodes_used.value if layer.HasField("inodes_used") else None,
    )
