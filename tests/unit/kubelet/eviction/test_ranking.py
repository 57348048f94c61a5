"""Eviction ranking: which pod is evicted first, and with which message and status."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import (
    ConfigMapVolumeSource,
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    Pod,
    PodCondition,
    PodStatus,
    ResourceRequirements,
    Volume,
)
from pykubelet.api.pods import PodUid, is_critical_pod
from pykubelet.kubelet.eviction.pod_usage import ContainerUsage, DiskUsage, PodUsage
from pykubelet.kubelet.eviction.ranking import (
    Eviction,
    StarvedResource,
    evicted,
    plan_eviction,
    ranked,
    relieving,
    requested,
)
from pykubelet.kubelet.eviction.thresholds import CONDITIONS, Observation, Threshold, parse_thresholds
from pykubelet.testing.build import container, pod, static_pod

MIB = 2**20


def asking(name: str, *, priority: int = 0, **requests: str) -> Pod:
    wanted = {resource.replace("_", "-"): text for resource, text in requests.items()}
    main = container(resources=ResourceRequirements(requests=wanted))
    return pod(name, containers=[main], priority=priority)


def uid_of(one: Pod) -> PodUid:
    return PodUid(one.metadata.uid)


def use(memory: int = 0, *, layer: int = 0, logs: int = 0, inodes: int = 0, processes: int = 0) -> PodUsage:
    main = ContainerUsage(
        memory_bytes=memory, layer=DiskUsage(layer, inodes), logs=DiskUsage(logs), processes=processes
    )
    return PodUsage(containers={"main": main})


def order(signal: str, given: dict[str, tuple[Pod, PodUsage | None]], *, has_image_fs: bool = False) -> list[str]:
    usages = {uid_of(one): used for one, used in given.values() if used is not None}
    pods = [one for one, _ in given.values()]
    return [one.metadata.name for one in ranked(pods, usages, signal, has_image_fs=has_image_fs)]


def named(*rows: tuple[Pod, PodUsage | None]) -> dict[str, tuple[Pod, PodUsage | None]]:
    return {one.metadata.name: (one, used) for one, used in rows}


@pytest.mark.parametrize(
    ("signal", "rows", "expected"),
    [
        (
            "memory.available",
            named(
                (asking("within", priority=-9, memory="100"), use(90)),
                (asking("important", priority=5, memory="10"), use(900)),
                (asking("beyond", memory="10"), use(20)),
                (asking("far-beyond", memory="10"), use(30)),
                (asking("unknown", priority=9), None),
            ),
            ["unknown", "far-beyond", "beyond", "important", "within"],
        ),
        (
            "memory.available",
            named((asking("exactly", memory="100"), use(100)), (asking("less", memory="100"), use(99))),
            ["exactly", "less"],
        ),
        (
            "pid.available",
            named(
                (asking("few"), use(processes=1)),
                (asking("many"), use(processes=9)),
                (asking("unimportant", priority=-1), use()),
                (asking("unknown"), None),
            ),
            ["unimportant", "unknown", "many", "few"],
        ),
        (
            "nodefs.available",
            named(
                (asking("within", ephemeral_storage="100"), use(layer=50, logs=50)),
                (asking("beyond", ephemeral_storage="10"), use(layer=6, logs=6)),
                (asking("best-effort"), use(logs=11)),
            ),
            ["best-effort", "beyond", "within"],
        ),
        (
            "nodefs.inodesFree",
            named((asking("some"), use(inodes=3)), (asking("none"), use(layer=99)), (asking("most"), use(inodes=4))),
            ["most", "some", "none"],
        ),
    ],
    ids=["memory", "memory within", "pids", "disk", "inodes"],
)
def test_pods_are_ranked_as_upstream_ranks_them(
    signal: str, rows: dict[str, tuple[Pod, PodUsage | None]], expected: list[str]
) -> None:
    """Usage above the request first, then lower priority, then usage above the request; for PIDs priority and count."""
    assert order(signal, rows) == expected


def test_images_on_their_own_disk_take_the_layers_with_them() -> None:
    """The node's disk then counts logs and volumes, but no writable layers."""
    rows = named((asking("layer"), use(layer=10)), (asking("logs"), use(logs=5)))
    assert order("nodefs.available", rows) == order("imagefs.available", rows) == ["layer", "logs"]
    assert order("imagefs.available", rows, has_image_fs=True) == ["layer", "logs"]
    assert order("nodefs.available", rows, has_image_fs=True) == ["logs", "layer"]


def test_only_volumes_on_the_disk_of_the_node_count() -> None:
    """Memory-backed volumes do not count, nor do host paths, which outlive the pod."""
    sources = {
        "disk": Volume(name="disk", empty_dir=EmptyDirVolumeSource()),
        "settings": Volume(name="settings", config_map=ConfigMapVolumeSource(name="x")),
        "memory": Volume(name="memory", empty_dir=EmptyDirVolumeSource(medium="Memory")),
        "host": Volume(name="host", host_path=HostPathVolumeSource(path="/x")),
    }
    rows = named(
        *(
            (pod(name, volumes=(volume,)), PodUsage(volumes={name: DiskUsage(size)}))
            for size, (name, volume) in zip((10, 20, 90, 80), sources.items(), strict=True)
        )
    )
    assert order("nodefs.available", rows) == ["settings", "disk", "memory", "host"]


def test_overhead_counts_only_beside_a_request() -> None:
    """Without a request the overhead is ignored, as upstream."""
    assert requested(pod(overhead={"memory": "10"}), "memory") == 0
    main = container(resources=ResourceRequirements(requests={"memory": "5"}))
    assert requested(pod(containers=[main], overhead={"memory": "10"}), "memory") == 15


def shortage(statement: dict[str, str], observed: dict[str, Observation], **fields: Any) -> StarvedResource:
    return StarvedResource(starved=parse_thresholds(statement), observed=observed, **fields)


LOW_MEMORY = shortage({"memory.available": "100Mi"}, {"memory.available": Observation(80 * MIB, 1000 * MIB)})
LOW_PIDS = shortage({"pid.available": "10%"}, {"pid.available": Observation(3000, 32768)})


def test_message_names_the_threshold_and_every_container_beyond_its_request() -> None:
    """Message and annotations are upstream's."""
    main = container(resources=ResourceRequirements(requests={"memory": "64Mi"}))
    web = pod(containers=[main, container("side"), container("calm")], init_containers=(container("sidecar"),))
    seen = {"main": 100 * MIB, "side": 2048, "sidecar": 1001, "debugger": 5 * MIB}
    used = PodUsage(containers={name: ContainerUsage(memory_bytes=size) for name, size in seen.items()})
    found = plan_eviction(LOW_MEMORY, [web], {uid_of(web): used})
    assert found is not None
    assert found.message == (
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "
        "Container main was using 100Mi, request is 64Mi, has larger consumption of memory. "
        "Container side was using 2Ki, request is 0, has larger consumption of memory. "
        "Container sidecar was using 1001, request is 0, has larger consumption of memory. "
    )
    assert found.annotations == {
        "offending_containers": "main,side,sidecar",
        "offending_containers_usage": "100Mi,2Ki,1001",
        "starved_resource": "memory",
    }


def test_pod_with_requests_of_its_own_is_named_as_a_whole() -> None:
    """The pod is named even if it is within its request."""
    web = pod(resources=ResourceRequirements(requests={"memory": "1Gi"}))
    found = plan_eviction(LOW_MEMORY, [web], {uid_of(web): use(MIB)})
    assert found is not None
    assert "Pod web was using 1Mi, request is 1Gi, has larger consumption of memory. " in found.message
    assert (found.annotations["offending_pod"], found.annotations["offending_pod_usage"]) == ("web", "1Mi")


@pytest.mark.parametrize(
    ("short", "used", "message"),
    [
        (LOW_PIDS, use(processes=5), "The node was low on resource: pids. Threshold quantity: 3276, available: 3k. "),
        (LOW_MEMORY, None, "The node was low on resource: memory. Threshold quantity: 100Mi, available: 80Mi. "),
        (
            shortage({"nodefs.available": "10%"}, {"nodefs.available": Observation(5, 100)}),
            use(layer=30, logs=3),
            (
                "The node was low on resource: ephemeral-storage. Threshold quantity: 10, available: 5. "
                "Container main was using 33, request is 0, has larger consumption of ephemeral-storage. "
            ),
        ),
        (shortage({"nodefs.inodesFree": "5%"}, {}), use(), "The node was low on resource: inodes. "),
    ],
    ids=["pids", "not measured", "disk", "not observed"],
)
def test_message_contains_only_what_was_measured(short: StarvedResource, used: PodUsage | None, message: str) -> None:
    """PIDs are not counted per container, and unmeasured pods have no container part."""
    web = pod()
    found = plan_eviction(short, [web], {uid_of(web): used} if used is not None else {})
    assert found is not None
    assert found.message == message


def test_memory_comes_first_and_garbage_helps_only_a_disk() -> None:
    """With a dedicated image disk, garbage collection frees space there and not on the node's disk."""
    observed = {signal: Observation(0, 100) for signal in CONDITIONS}
    both = shortage({"nodefs.available": "10%", "memory.available": "1Gi"}, observed)
    assert (both.first.signal, both.is_for_reclaim, both.needs_disk) == ("memory.available", False, False)
    helps = {
        (signal, dedicated): shortage({signal: "10%"}, observed, has_image_fs=dedicated).is_for_reclaim
        for signal in CONDITIONS
        for dedicated in (False, True)
    }
    assert {pair for pair, is_so in helps.items() if is_so} == {
        ("nodefs.available", False),
        ("nodefs.inodesFree", False),
        ("imagefs.available", False),
        ("imagefs.inodesFree", False),
        ("imagefs.available", True),
        ("imagefs.inodesFree", True),
    }


@pytest.mark.parametrize(
    ("grace", "wanted", "expected"),
    [(0.0, 30, 1), (60.0, 30, 20), (60.0, 5, 5), (60.0, None, 20)],
    ids=["hard", "soft", "soft and quick", "soft without wish"],
)
def test_grace_is_one_second_or_the_maximum_of_soft_evictions(grace: float, wanted: int | None, expected: int) -> None:
    """It is never longer than the pod's own grace period."""
    soft = Threshold(signal="memory.available", value=LOW_MEMORY.first.value, grace_seconds=grace)
    short = StarvedResource(starved=(soft,), observed=LOW_MEMORY.observed)
    found = plan_eviction(short, [pod(termination_grace_period_seconds=wanted)], {}, max_grace_seconds=20)
    assert found is not None
    assert found.grace_seconds == expected


def test_evicted_pod_has_a_failed_status() -> None:
    """The DisruptionTarget condition is set unless the pod broke its own limit; other conditions stay."""
    ready = PodCondition(type="Ready", status="True")
    before = PodStatus(phase="Running", conditions=(ready, PodCondition(type="DisruptionTarget", status="False")))
    after = evicted(Eviction(pod=pod(), message="why", signal="x"), before)
    assert (after.phase, after.reason, after.message) == ("Failed", "Evicted", "why")
    assert after.conditions == (
        ready,
        PodCondition(type="DisruptionTarget", status="True", reason="TerminationByKubelet", message="why"),
    )
    own_fault = evicted(Eviction(pod=pod(), message="why", signal="x", is_disruption=False), before)
    assert own_fault.conditions == before.conditions


@settings(max_examples=60)
@given(
    signal=st.sampled_from(sorted(CONDITIONS)),
    pods=st.lists(
        st.tuples(
            st.integers(-5, 2_000_000_001),
            st.booleans(),
            st.none() | st.builds(use, st.integers(0, 9), logs=st.just(3)),
        ),
        max_size=8,
    ),
)
def test_critical_pod_is_never_evicted_and_the_first_other_pod_is(
    signal: str, pods: list[tuple[int, bool, PodUsage | None]]
) -> None:
    """Exactly one pod is chosen: the first in the ranking that is not critical."""
    made = [
        (static_pod if is_static else pod)(f"p{i}", uid=f"u{i}", priority=p) for i, (p, is_static, _) in enumerate(pods)
    ]
    usages = {uid_of(one): used for one, (_, _, used) in zip(made, pods, strict=True) if used is not None}
    found = plan_eviction(shortage({signal: "50%"}, {signal: Observation(1, 100)}), made, usages)
    ordinary = [one for one in ranked(made, usages, signal, has_image_fs=False) if not is_critical_pod(one)]
    assert (found.pod if found is not None else None) == (ordinary[0] if ordinary else None)


@pytest.mark.parametrize(
    ("signal", "available", "held", "helps"),
    [
        # A thousandth of the missing GiB, but 64 KiB at least.
        ("nodefs.available", 0, use(layer=MIB * 1024 // 1000), True),
        ("nodefs.available", 0, use(layer=MIB * 1024 // 1000 - 1), False),
        ("nodefs.available", 0, use(logs=MIB * 1024 // 1000), True),
        ("nodefs.available", 1023 * MIB, use(layer=64 * 1024), True),
        ("nodefs.available", 1023 * MIB, use(layer=64 * 1024 - 1), False),
        # A thousandth of the missing 1073741824, but 64 at least.
        ("nodefs.inodesFree", 0, use(inodes=MIB * 1024 // 1000), True),
        ("nodefs.inodesFree", 0, use(inodes=MIB * 1024 // 1000 - 1), False),
        ("nodefs.inodesFree", 1024 * MIB - 2000, use(inodes=64), True),
        ("nodefs.inodesFree", 1024 * MIB - 2000, use(inodes=63), False),
        ("nodefs.available", 0, None, True),
        ("memory.available", 0, use(), True),
    ],
)
def test_pod_helps_if_it_holds_a_noticeable_part_of_what_is_missing(
    signal: str, available: int, held: PodUsage | None, helps: bool
) -> None:
    """A tenth of ten GiB must be available. A pod that is not measured may hold anything."""
    short = shortage({signal: "10%"}, {signal: Observation(available, 10 * 1024 * MIB)})
    web = pod()
    assert relieving(short, [web], {uid_of(web): held} if held is not None else {}) == ((web,) if helps else ())


def test_any_pod_helps_if_the_shortage_is_not_measured() -> None:
    web = pod()
    assert relieving(shortage({"nodefs.available": "10%"}, {}), [web], {uid_of(web): use()}) == (web,)
