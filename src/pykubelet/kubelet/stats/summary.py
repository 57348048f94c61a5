"""The document of /stats/summary: the usage of the node and each of its pods.

Unknown values are left out.

Upstream: pkg/kubelet/server/stats/summary.go, staging/src/k8s.io/kubelet/pkg/apis/stats/v1alpha1/types.go
"""

from collections.abc import Callable, Iterable, Mapping

from pykubelet.api.serializer import Document
from pykubelet.api.times import format_time
from pykubelet.kubelet.stats.machine_usage import FileSystemUsage, MachineUsage
from pykubelet.runtimes.protocol import ContainerResourceUsage, ContainerState, RuntimeContainer, RuntimePod

NODE_KEY = "node"

Rate = Callable[[str, ContainerResourceUsage], int | None]
"""The CPU rate in nanocores of a container's ID or NODE_KEY."""


def running_containers(pod: RuntimePod) -> list[RuntimeContainer]:
    return [container for container in pod.containers if container.state is ContainerState.RUNNING]


def summary(
    node_name: str,
    machine: MachineUsage,
    pods: Iterable[RuntimePod],
    usages: Mapping[str, ContainerResourceUsage],
    rate: Rate,
) -> Document:
    """The document of the node and all its pods."""
    usage = machine.usage
    memory = _memory(usage) | {
        "availableBytes": max(machine.memory_bytes - (usage.working_set_bytes or 0), 0),
        "pageFaults": machine.page_faults,
        "majorPageFaults": machine.major_page_faults,
    }
    node: Document = {"nodeName": node_name, "cpu": _cpu(usage, rate(NODE_KEY, usage)), "memory": memory}
    node["startTime"] = format_time(machine.booted_at) if machine.booted_at is not None else None
    node["swap"] = _known(usage, {"swapUsageBytes": usage.swap_bytes})
    if machine.max_processes is not None and machine.processes is not None:
        node["rlimit"] = _known(usage, {"maxpid": machine.max_processes, "curproc": machine.processes})
    if machine.file_system is not None:
        node["fs"] = _known(usage, _file_system(machine.file_system))
    return {"node": node, "pods": [_pod(pod, usages, rate) for pod in pods if running_containers(pod)]}


def _pod(pod: RuntimePod, usages: Mapping[str, ContainerResourceUsage], rate: Rate) -> Document:
    running = running_containers(pod)
    document: Document = {"podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}}
    document["startTime"] = format_time(pod.sandboxes[0].created_at) if pod.sandboxes else None
    document["containers"] = [_container(container, usages.get(container.id), rate) for container in running]
    known = [usages[container.id] for container in running if container.id in usages]
    if len(known) == len(running):
        whole = total(known)
        rates = [rate(container.id, usages[container.id]) for container in running]
        cores = sum(each for each in rates if each is not None) if None not in rates else None
        document |= {"cpu": _cpu(whole, cores), "memory": _memory(whole)}
    return document


def total(usages: Iterable[ContainerResourceUsage]) -> ContainerResourceUsage:
    """The sum; a value that is unknown for one is unknown. There is at least one."""
    all_of = tuple(usages)

    def added(values: Iterable[int | None]) -> int | None:
        numbers = tuple(values)
        return sum(number for number in numbers if number is not None) if None not in numbers else None

    return ContainerResourceUsage(
        at=max(usage.at for usage in all_of),
        cpu_nanoseconds=added(usage.cpu_nanoseconds for usage in all_of),
        memory_bytes=added(usage.memory_bytes for usage in all_of),
        working_set_bytes=added(usage.working_set_bytes for usage in all_of),
        rss_bytes=added(usage.rss_bytes for usage in all_of),
        swap_bytes=added(usage.swap_bytes for usage in all_of),
    )


def _container(container: RuntimeContainer, usage: ContainerResourceUsage | None, rate: Rate) -> Document:
    started = container.started_at or container.created_at
    document: Document = {"name": container.name, "startTime": format_time(started)}
    if usage is not None:
        document |= {"cpu": _cpu(usage, rate(container.id, usage)), "memory": _memory(usage)}
    return document


def _cpu(usage: ContainerResourceUsage, nano_cores: int | None) -> Document:
    return _known(usage, {"usageNanoCores": nano_cores, "usageCoreNanoSeconds": usage.cpu_nanoseconds})


def _memory(usage: ContainerResourceUsage) -> Document:
    numbers = {
        "usageBytes": usage.memory_bytes,
        "workingSetBytes": usage.working_set_bytes,
        "rssBytes": usage.rss_bytes,
    }
    return _known(usage, numbers)


def _known(usage: ContainerResourceUsage, numbers: Mapping[str, int | None]) -> Document:
    return {"time": format_time(usage.at)} | {name: number for name, number in numbers.items() if number is not None}


def _file_system(usage: FileSystemUsage) -> dict[str, int]:
    return {
        "availableBytes": usage.available_bytes,
        "capacityBytes": usage.capacity_bytes,
        "usedBytes": usage.used_bytes,
        "inodesFree": usage.inodes_free,
        "inodes": usage.inodes,
        "inodesUsed": usage.inodes - usage.inodes_free,
    }
