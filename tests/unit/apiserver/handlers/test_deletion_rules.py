"""Rules of deletion: marking, keeping or removing an object, tested without a server."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.times import format_time, parse_time
from pykubelet.apiserver.handlers.delete import DeleteOptions, decide_deletion, decide_namespace_deletion
from pykubelet.apiserver.handlers.write import has_nothing_left
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.kinds.namespace import is_held, is_terminating, without_finalizer

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SERVED = {served.resource.group_resource: served for served in BUILT_IN_KINDS}
FINALIZERS = st.lists(st.sampled_from(["orphan", "foregroundDeletion", "example.com/a"]), max_size=3, unique=True)
OPTIONS = st.builds(
    DeleteOptions,
    grace_seconds=st.none() | st.integers(-5, 100),
    orphan_dependents=st.none() | st.booleans(),
    policy=st.none() | st.sampled_from(["Foreground", "Background", "Orphan"]),
)


def pod(finalizers: list[str], grace: int | None, started: int, node: str = "n") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "a", "namespace": "d", "uid": "u", "resourceVersion": "5", "generation": 1}
    if finalizers:
        metadata["finalizers"] = finalizers
    if grace is not None:
        at = NOW + timedelta(seconds=started + grace)
        metadata |= {"deletionTimestamp": format_time(at), "deletionGracePeriodSeconds": grace}
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 30}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


@given(OPTIONS, FINALIZERS, st.none() | st.integers(0, 60), st.integers(-100, 0), st.sampled_from(["", "n"]))
def test_deletion_of_a_pod_only_ever_moves_forward(
    options: DeleteOptions, finalizers: list[str], grace: int | None, started: int, node: str
) -> None:
    """The grace period shrinks, foreign finalizers stay, a removed pod has none, and nothing changes in place."""
    before = pod(finalizers, grace, started, node)
    done = decide_deletion(options, before, SERVED["pods"], NOW)
    assert before == pod(finalizers, grace, started, node)
    metadata = done.document["metadata"]
    kept = metadata.get("finalizers", [])
    assert ("example.com/a" in kept) == ("example.com/a" in finalizers)
    if done.action in ("keep", "remove"):
        assert done.document is before
        return
    assert not {"orphan", "foregroundDeletion"} <= set(kept)
    if done.action == "mark and remove":
        assert not kept
    else:
        assert metadata["deletionGracePeriodSeconds"] <= (grace if grace is not None else 100)
        assert kept or metadata["deletionGracePeriodSeconds"] > 0
        assert metadata["generation"] == (1 if grace is not None else 2)


@given(st.integers(1, 60), st.integers(0, 60), st.integers(-100, 0))
def test_shorter_grace_counts_from_the_first_deletion_but_never_ends_in_the_past(
    old: int, new: int, started: int
) -> None:
    """If the shorter time is already over, at most one second is left."""
    done = decide_deletion(DeleteOptions(grace_seconds=new), pod([], old, started), SERVED["pods"], NOW)
    metadata = done.document["metadata"]
    if new >= old:
        assert done.action == "keep"
        return
    assert parse_time(metadata["deletionTimestamp"]) >= NOW
    expected = new if started + new >= 0 else min(new, 1)
    assert metadata["deletionGracePeriodSeconds"] == expected
    assert done.action == ("mark" if expected else "mark and remove")


@given(OPTIONS, FINALIZERS)
def test_kind_without_grace_goes_at_once_or_waits_for_finalizers_alone(
    options: DeleteOptions, finalizers: list[str]
) -> None:
    """It is marked with a grace period of zero, and a second deletion changes nothing."""
    document = {**pod(finalizers, None, 0), "kind": "ConfigMap"}
    done = decide_deletion(options, document, SERVED["configmaps"], NOW)
    if done.action == "remove":
        assert done.document is document
        return
    assert done.document["metadata"]["deletionGracePeriodSeconds"] == 0
    again = decide_deletion(DeleteOptions(), done.document, SERVED["configmaps"], NOW + timedelta(seconds=5))
    assert again.document == done.document


@given(FINALIZERS, FINALIZERS, st.booleans(), st.integers(0, 5))
def test_object_is_over_when_its_last_finalizer_goes(new: list[str], old: list[str], deleted: bool, grace: int) -> None:
    """This requires that it was deleted and that its grace period is zero."""
    before = pod(old, grace if deleted else None, 0)
    after = pod(new, grace if deleted else None, 0)
    assert has_nothing_left(after, before) == (deleted and not new and grace == 0)


@given(OPTIONS, FINALIZERS, st.lists(st.sampled_from(["kubernetes", "example.com/a"]), unique=True))
def test_namespace_is_emptied_before_it_goes(options: DeleteOptions, finalizers: list[str], spec: list[str]) -> None:
    """It is marked first, and then kept until its spec has no finalizers."""
    metadata = {"name": "x", "uid": "u", "resourceVersion": "5", **({"finalizers": finalizers} if finalizers else {})}
    namespace = {"kind": "Namespace", "metadata": metadata, "spec": {"finalizers": spec} if spec else {}, "status": {}}
    marked = decide_namespace_deletion(options, namespace, SERVED["namespaces"], NOW)
    assert (marked.action, marked.document["status"]["phase"]) == ("mark", "Terminating")
    assert is_terminating(marked.document) == ("kubernetes" in spec)
    again = decide_namespace_deletion(options, marked.document, SERVED["namespaces"], NOW)
    assert (again.action == "keep") == bool(spec)
    held = [name for name in spec if name != "kubernetes"]
    assert is_held(without_finalizer(marked.document)) == bool(held or marked.document["metadata"].get("finalizers"))
