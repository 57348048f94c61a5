"""The message about limits of a pod that a runtime cannot enforce."""

from msgspec.structs import replace

from pykubelet.api.generated.core import Pod, ResourceRequirements
from pykubelet.runtimes.limits import ALL_ENFORCED, UnenforcedLimits
from pykubelet.testing.build import container, pod

NOTHING_LIMITED = UnenforcedLimits(
    resources=frozenset({"cpu", "memory"}), max_pids=4096, only_of_containers=True, advice="run it as root"
)
ONLY_CONTAINERS = UnenforcedLimits(only_of_containers=True)


def limited(**limits: str) -> ResourceRequirements:
    return ResourceRequirements(limits=limits)


def with_limits(of_pod: ResourceRequirements | None = None, **containers: ResourceRequirements) -> Pod:
    """A pod whose containers have these limits; the first one is an init container."""
    first, *others = (replace(container(name), resources=wanted) for name, wanted in containers.items())
    found = pod(containers=tuple(others))
    return replace(found, spec=replace(found.spec, init_containers=(first,), resources=of_pod))


def test_message_names_each_container_with_its_limits() -> None:
    """It also says what to do, and that the node's limit of processes has no effect either."""
    found = with_limits(setup=limited(memory="100Mi"), web=limited(cpu="500m", memory="1Gi"), free=limited())
    assert NOTHING_LIMITED.message(found) == (
        "This node does not enforce limits of container setup: memory 100Mi; container web: cpu 500m, memory 1Gi; "
        "processes of each container (--pod-max-pids 4096). To have them enforced: run it as root"
    )


def test_pod_without_limits_has_no_message() -> None:
    """Requests, limits of other resources, and limits of nothing do not count."""
    wanted = ResourceRequirements(requests={"memory": "1Gi"}, limits={"ephemeral-storage": "1Gi", "cpu": "0"})
    assert NOTHING_LIMITED.message(with_limits(a=wanted, b=wanted)) == ""


def test_enforced_limits_have_no_message() -> None:
    """A machine may have some of the controllers."""
    found = with_limits(limited(memory="2Gi"), a=limited(), b=limited(cpu="1", memory="1Gi"))
    assert ALL_ENFORCED.message(found) == ""
    only_cpu = UnenforcedLimits(resources=frozenset({"cpu"}), advice="x")
    assert "container b: cpu 1. To" in only_cpu.message(found)


def test_limits_of_the_whole_pod_have_a_message_even_if_those_of_containers_are_enforced() -> None:
    """The process runtime has a cgroup for each container, and none for the pod."""
    found = with_limits(limited(memory="2Gi"), a=limited(), b=limited(memory="1Gi"))
    assert ONLY_CONTAINERS.message(found) == (
        "This node does not enforce limits of the pod: memory 2Gi. "
        "To have them enforced: set the limits of the pod on its containers"
    )
