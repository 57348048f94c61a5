"""Converting CRI statuses to those of the node."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cri_api.v1 import api_pb2 as cri
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import ContainerUser, LinuxContainerUser
from pykubelet.api.pods import PodUid
from pykubelet.runtimes.cri.runtime import container_usage
from pykubelet.runtimes.cri.statuses import (
    PodOwner,
    created_container,
    group_by_pod,
    owner_of,
    runtime_condition_errors,
    runtime_container,
    runtime_sandbox,
)
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, Sandbox

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LABELS = {
    "io.kubernetes.pod.uid": "uid",
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.container.name": "main",
}


def at(seconds: int) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


def status(**fields: Any) -> cri.ContainerStatus:
    return cri.ContainerStatus(
        id="c",
        metadata=cri.ContainerMetadata(name="main", attempt=4),
        created_at=10**9,
        labels=LABELS,
        annotations={"io.kubernetes.container.hash": "abc"},
        image=cri.ImageSpec(image="example/image:1"),
        image_ref="example/image@sha256:1",
        **fields,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"state": cri.CONTAINER_CREATED}, (ContainerState.CREATED, None, None, 0, "")),
        ({"state": cri.CONTAINER_RUNNING, "started_at": 2 * 10**9}, (ContainerState.RUNNING, at(2), None, 0, "")),
        (
            {"state": cri.CONTAINER_EXITED, "started_at": 2 * 10**9, "finished_at": 3 * 10**9},
            (ContainerState.EXITED, at(2), at(3), 0, "Completed"),
        ),
        (
            {"state": cri.CONTAINER_EXITED, "started_at": 2 * 10**9, "finished_at": 3 * 10**9, "exit_code": 2},
            (ContainerState.EXITED, at(2), at(3), 2, "Error"),
        ),
        (
            {"state": cri.CONTAINER_EXITED, "finished_at": 3 * 10**9, "exit_code": 137, "reason": "OOMKilled"},
            (ContainerState.EXITED, at(3), at(3), 137, "OOMKilled"),
        ),
        (
            {"state": cri.CONTAINER_EXITED, "started_at": 4 * 10**9, "finished_at": 3 * 10**9},
            (ContainerState.EXITED, at(3), at(3), 0, "Completed"),
        ),
        ({"state": cri.CONTAINER_UNKNOWN, "exit_code": 255}, (ContainerState.UNKNOWN, None, None, 0, "")),
    ],
    ids=["created", "running", "completed", "error", "never started", "quick", "unknown"],
)
def test_container_is_where_it_is_in_its_life(fields: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """Exit code and reason are set only for exited containers."""
    found = runtime_container(status(**fields), "box")
    assert (found.state, found.started_at, found.finished_at, found.exit_code, found.reason) == expected
    assert (found.name, found.attempt, found.hash, found.sandbox_id) == ("main", 4, "abc", "box")
    assert (found.image, found.image_id, found.user) == ("example/image:1", "example/image@sha256:1", None)


def test_container_has_its_user_if_the_runtime_reports_it() -> None:
    """Only recent runtimes report it."""
    linux = cri.LinuxContainerUser(uid=1, gid=2, supplemental_groups=[3])
    found = runtime_container(status(state=cri.CONTAINER_RUNNING, user=cri.ContainerUser(linux=linux)), "box")
    assert found.user == ContainerUser(linux=LinuxContainerUser(uid=1, gid=2, supplemental_groups=(3,)))


def test_created_container_is_converted_from_the_list_alone() -> None:
    """The result equals the one from its status."""
    full = status(state=cri.CONTAINER_CREATED)
    listed = cri.Container(
        id="c",
        pod_sandbox_id="box",
        metadata=full.metadata,
        image=full.image,
        image_ref=full.image_ref,
        created_at=full.created_at,
        labels=full.labels,
        annotations=full.annotations,
    )
    assert created_container(listed) == runtime_container(full, "box")


def test_sandbox_has_its_addresses() -> None:
    """All addresses, the primary one first."""
    found = runtime_sandbox(
        cri.PodSandboxStatus(
            id="box",
            metadata=cri.PodSandboxMetadata(attempt=2),
            created_at=10**9,
            network=cri.PodSandboxNetworkStatus(ip="192.0.2.1", additional_ips=[cri.PodIP(ip="2001:db8::1")]),
        )
    )
    assert found == Sandbox(id="box", attempt=2, created_at=at(1), ips=("192.0.2.1", "2001:db8::1"))
    options = cri.LinuxPodSandboxStatus(namespaces=cri.Namespace(options=cri.NamespaceOption(network=cri.NODE)))
    gone = runtime_sandbox(cri.PodSandboxStatus(state=cri.SANDBOX_NOTREADY, linux=options))
    assert (gone.is_ready, gone.host_network, gone.ips) == (False, True, ())


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.booleans()), max_size=12))
def test_everything_is_with_its_pod_newest_first(made: list[tuple[str, int, bool]]) -> None:
    """No container or sandbox is lost or in the wrong pod."""
    boxes = [
        (PodOwner(PodUid(uid), "default", uid), Sandbox(id=f"{number}", created_at=at(age)))
        for number, (uid, age, is_box) in enumerate(made)
        if is_box
    ]
    containers = [
        (
            PodOwner(PodUid(uid), "default", uid),
            RuntimeContainer(id=f"{number}", name=uid, state=ContainerState.RUNNING, created_at=at(age)),
        )
        for number, (uid, age, is_box) in enumerate(made)
        if not is_box
    ]
    pods = group_by_pod(boxes, containers)
    assert sorted(one.uid for one in pods) == sorted({uid for uid, _, _ in made})
    assert sum(len(pod.sandboxes) + len(pod.containers) for pod in pods) == len(made)
    for pod in pods:
        assert {one.name for one in pod.containers} <= {pod.uid}
        ages = [one.created_at for one in pod.containers]
        assert ages == sorted(ages, reverse=True)
        assert [one.created_at for one in pod.sandboxes] == sorted(
            (one.created_at for one in pod.sandboxes), reverse=True
        )


def test_sandbox_without_kubelet_labels_has_no_owner() -> None:
    """Other clients may use the same runtime."""
    assert owner_of(cri.PodSandbox(labels={"app": "x"})) is None
    assert owner_of(cri.PodSandbox(labels=LABELS)) == PodOwner(PodUid("uid"), "default", "web")


def condition(kind: str, *, is_ready: bool) -> cri.RuntimeCondition:
    return cri.RuntimeCondition(type=kind, status=is_ready, reason="Why", message="because")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([condition("RuntimeReady", is_ready=True), condition("NetworkReady", is_ready=True)], ("", "")),
        (
            [condition("RuntimeReady", is_ready=True), condition("NetworkReady", is_ready=False)],
            ("", "container runtime network not ready: NetworkReady=false reason:Why message:because"),
        ),
        (
            [condition("RuntimeReady", is_ready=False), condition("NetworkReady", is_ready=True)],
            ("container runtime not ready: RuntimeReady=false reason:Why message:because", ""),
        ),
    ],
)
def test_unready_runtime_has_an_error(conditions: list[cri.RuntimeCondition], expected: tuple[str, str]) -> None:
    """The texts are those of the Go kubelet."""
    assert runtime_condition_errors(cri.RuntimeStatus(conditions=conditions)) == expected


def test_runtime_without_conditions_is_not_ready() -> None:
    """Missing conditions count as not ready."""
    assert all(runtime_condition_errors(cri.RuntimeStatus()))


def test_usage_is_what_was_measured() -> None:
    """Other values are unknown; without any measurement there is no usage."""
    cpu = cri.CpuUsage(timestamp=2 * 10**9, usage_core_nano_seconds=cri.UInt64Value(value=5))
    memory = cri.MemoryUsage(timestamp=10**9, working_set_bytes=cri.UInt64Value(value=0))
    layer = cri.FilesystemUsage(used_bytes=cri.UInt64Value(value=7))
    usage = container_usage(cri.ContainerStats(cpu=cpu, memory=memory, writable_layer=layer))
    assert usage is not None
    assert (usage.layer_bytes, usage.layer_inodes) == (7, None)
    assert (usage.at, usage.cpu_nanoseconds, usage.working_set_bytes, usage.rss_bytes) == (at(2), 5, 0, None)
    assert container_usage(cri.ContainerStats()) is None
