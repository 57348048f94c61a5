"""Container states from the records on disk, and the index of pods."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.pods import PodUid
from pykubelet.runtimes.process.pods import ContainerEntry, ProcessPods
from pykubelet.runtimes.process.shim.processes import ProcessIdentity
from pykubelet.runtimes.process.state import (
    ContainerExitRecord,
    ContainerRecord,
    ContainerStartRecord,
    ProcessPodRecord,
    SandboxRecord,
    runtime_container,
)
from pykubelet.runtimes.protocol import ContainerState

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ME = ProcessIdentity(1, 2, "boot")
STARTED = ContainerStartRecord(supervisor=ME, main=ME, started_at=1_767_323_045_000_001_000)
ENDED = ContainerExitRecord(exit_code=3, reason="Error", finished_at=1_767_323_046_000_002_000, message="oops")


def facts(id: str = "c1", *, pod: str = "web", sandbox: str = "s1", attempt: int = 0) -> ContainerRecord:
    return ContainerRecord(
        id=id,
        pod=ProcessPodRecord(uid=PodUid(f"uid-{pod}"), namespace="default", name=pod),
        sandbox_id=sandbox,
        name="main",
        attempt=attempt,
        image="example/image:1",
        image_id="sha256:1",
        hash="abc",
        created_at=NOW,
        stop_signal=15,
        tty=False,
    )


def sandbox(
    id: str = "s1", *, pod: str = "web", boot: str = "boot", attempt: int = 0, is_stopped: bool = False
) -> SandboxRecord:
    return SandboxRecord(
        id=id,
        pod=ProcessPodRecord(uid=PodUid(f"uid-{pod}"), namespace="default", name=pod),
        attempt=attempt,
        created_at=NOW,
        boot_id=boot,
        hostname="web",
        host_network=False,
        is_stopped=is_stopped,
    )


@pytest.mark.parametrize(
    ("state", "exit", "told"),
    [
        (None, None, ContainerState.CREATED),
        (ContainerStartRecord(), None, ContainerState.CREATED),
        (ContainerStartRecord(supervisor=ME), None, ContainerState.CREATED),
        (STARTED, None, ContainerState.RUNNING),
        (STARTED, ENDED, ContainerState.EXITED),
        (None, ENDED, ContainerState.EXITED),
    ],
    ids=["made", "never to be started", "being started", "running", "ended", "ended without a trace"],
)
def test_records_give_the_state_of_a_container(
    state: ContainerStartRecord | None, exit: ContainerExitRecord | None, told: ContainerState
) -> None:
    """An exit record takes precedence."""
    container = runtime_container(facts(), state, exit)
    assert container.state == told
    assert (container.finished_at is not None) == (exit is not None)
    assert (container.started_at is not None) == (told in {ContainerState.RUNNING, ContainerState.EXITED})


def test_exit_record_is_converted_completely() -> None:
    """Times have microseconds, like the node's clock."""
    container = runtime_container(facts(), STARTED, ENDED)
    assert (container.exit_code, container.reason, container.message) == (3, "Error", "oops")
    assert container.started_at == datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=UTC)
    assert container.finished_at == datetime(2026, 1, 2, 3, 4, 6, 2, tzinfo=UTC)


def test_start_record_is_decoded_from_json() -> None:
    """JSON has no tuples, but a process identity is one."""
    text = b'{"supervisor": [1, 2, "boot"], "main": [1, 2, "boot"], "started_at": 1767323045000001000}'
    assert msgspec.json.decode(text, type=ContainerStartRecord) == STARTED


@pytest.mark.parametrize(
    ("record", "is_ready"),
    [(sandbox(), True), (sandbox(is_stopped=True), False), (sandbox(boot="earlier"), False)],
    ids=["ready", "stopped", "of another boot"],
)
def test_sandbox_is_ready_until_it_is_stopped_or_the_machine_is(record: SandboxRecord, is_ready: bool) -> None:
    """It has the host's addresses, unless it uses the host network."""
    told = record.value("boot", ("192.0.2.1",))
    assert (told.is_ready, told.ips) == (is_ready, ("192.0.2.1",))
    assert msgspec.structs.replace(record, host_network=True).value("boot", ("192.0.2.1",)).ips == ()


def test_book_forgets_a_pod_with_its_last_thing() -> None:
    """Removing a sandbox removes its containers."""
    book = ProcessPods("boot", ())
    book.put_sandbox(sandbox())
    book.put_container(ContainerEntry(facts()))
    book.put_container(ContainerEntry(facts("c2", sandbox="s2")))
    book.remove("s1")
    book.remove("nobody")
    pod = book.pod(PodUid("uid-web"))
    assert pod is not None
    assert [container.id for container in pod.containers] == ["c2"]
    assert book.owner("c1") == (None, None)
    book.remove("c2")
    assert list(book.pods()) == []


THINGS = st.tuples(st.sampled_from("sc"), st.integers(0, 3), st.integers(0, 1), st.integers(0, 5), st.booleans())


@settings(max_examples=100)
@given(st.lists(THINGS, max_size=12))
def test_pods_list_their_contents_newest_first(things: list[tuple[str, int, int, int, bool]]) -> None:
    """After any sequence of additions and removals."""
    book = ProcessPods("boot", ())
    model: dict[str, tuple[int, str]] = {}
    for kind, number, pod, age, is_removed in things:
        id = f"{kind}{pod}{number}"
        if is_removed or id in model:
            book.remove(id)
            if id in model:
                model = {known: found for known, found in model.items() if id not in {known, found[1]}}
        elif kind == "s":
            book.put_sandbox(
                msgspec.structs.replace(sandbox(id, pod=str(pod)), created_at=NOW + timedelta(seconds=age))
            )
            model[id] = (age, "")
        else:
            made = msgspec.structs.replace(
                facts(id, pod=str(pod), sandbox=f"s{pod}0"), created_at=NOW + timedelta(seconds=age)
            )
            book.put_container(ContainerEntry(made))
            model[id] = (age, f"s{pod}0")
    sandboxes = [one.id for pod in book.pods() for one in pod.sandboxes]
    containers = [one.id for pod in book.pods() for one in pod.containers]
    assert sorted((*sandboxes, *containers)) == sorted(model)
    for listed in book.pods():
        ages = [one.created_at for one in listed.containers]
        assert ages == sorted(ages, reverse=True)
