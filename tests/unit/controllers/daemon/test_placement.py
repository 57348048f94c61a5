"""Daemon pods per node: creations and deletions, node fit, and the backoff of failed pods."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.apps import DaemonSet, DaemonSetSpec
from pykubelet.api.generated.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from pykubelet.api.generated.meta import ObjectMeta
from pykubelet.api.scheduling import NodeFit, is_tolerated, matches_node, node_fit, with_toleration
from pykubelet.controllers.daemon.placement import (
    DaemonPodRevision,
    count_status,
    node_should_run_daemon_pod,
    plan_node,
    pods_by_node,
    revision_of,
    stranded_pods,
    target_node,
    template_for,
)
from pykubelet.controllers.daemon.pods import FailedPodBackoff
from pykubelet.testing.virtual_time import EPOCH

NODE = Node(metadata=ObjectMeta(name="n1", labels={"zone": "a", "cpus": "8"}))
AT = "2026-01-01T00:00:00Z"


def pod(name: str = "p", phase: str = "Running", *, node: str = "n1", **meta: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, uid=name, **meta),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
    )


KINDS = st.lists(
    st.sampled_from(["Running", "Pending", "Failed", "Succeeded", "deleted", "failed and deleted"]), max_size=6
)
FITS = st.sampled_from([NodeFit(True, True), NodeFit(False, True), NodeFit(False, False)])


def make(number: int, kind: str) -> Pod:
    deleted = AT if "deleted" in kind else None
    phase = {"deleted": "Running", "failed and deleted": "Failed"}.get(kind, kind)
    return pod(f"p{number}", phase, deletion_timestamp=deleted, creation_timestamp=AT)


@settings(deadline=None, max_examples=200)
@given(kinds=KINDS, fit=FITS, may_kill=st.booleans())
def test_plan_of_a_node(kinds: list[str], fit: NodeFit, may_kill: bool) -> None:
    """A pod is created only on an empty node, one running pod may stay, and no pod is deleted twice."""
    pods = [make(number, kind) for number, kind in enumerate(kinds)]
    plan = plan_node(fit, pods, may_kill_failed=may_kill)
    gone = [*([plan.failed] if plan.failed else []), *plan.succeeded, *plan.surplus]
    assert len({one.metadata.uid for one in gone}) == len(gone)
    assert all(one.metadata.deletion_timestamp is None for one in gone)
    assert plan.create == (fit.may_start and not pods)
    running = [one for one in pods if one.status.phase in ("Running", "Pending")]
    running = [one for one in running if one.metadata.deletion_timestamp is None]
    left = [one for one in running if one not in gone]
    assert len(left) == (0 if not fit.may_stay else min(1, len(running)))
    failed = sum(kind == "Failed" for kind in kinds)
    if fit.may_stay:
        assert plan.is_waiting == (failed > may_kill)
        assert (plan.failed is not None) == (may_kill and failed > 0)


@settings(deadline=None, max_examples=100)
@given(kinds=KINDS, fit=FITS)
def test_repeated_plans_settle(kinds: list[str], fit: NodeFit) -> None:
    """One pod is left where pods may start, at most one where they may stay, and none elsewhere."""
    pods = [make(number, kind) for number, kind in enumerate(kinds)]
    for turn in range(20):
        plan = plan_node(fit, pods_by_node(pods).get("n1", []), may_kill_failed=True)
        gone = {one.metadata.uid for one in (*([plan.failed] if plan.failed else []), *plan.succeeded, *plan.surplus)}
        pods = [one for one in pods if one.metadata.uid not in gone and one.metadata.deletion_timestamp is None]
        if plan.create:
            pods.append(pod(f"new-{turn}", creation_timestamp=AT))
    assert len(pods) <= 1
    assert len(pods) == 1 if fit.may_start else fit.may_stay or not pods
    assert plan_node(fit, pods, may_kill_failed=True) == plan_node(fit, pods, may_kill_failed=False)


def test_oldest_pod_is_kept() -> None:
    """Scheduled pods come before unscheduled ones, then age and name decide."""
    later = "2026-01-02T00:00:00Z"
    pods = [
        pod("c", node="n1", creation_timestamp=later),
        pod("unscheduled", node="", creation_timestamp=AT),
        pod("b", node="n1", creation_timestamp=AT),
        pod("a", node="n1", creation_timestamp=AT),
    ]
    plan = plan_node(NodeFit(True, True), pods, may_kill_failed=True)
    assert [one.metadata.name for one in plan.surplus] == ["b", "c", "unscheduled"]


def daemon_set(annotations: dict[str, str] | None = None, **spec: Any) -> DaemonSet:
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "x"}), spec=PodSpec(**spec))
    return DaemonSet(metadata=ObjectMeta(annotations=annotations or {}), spec=DaemonSetSpec(template=template))


def required(*terms: NodeSelectorTerm) -> Affinity:
    selector = NodeSelector(node_selector_terms=terms)
    return Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=selector))


def wanting(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def test_new_pod_is_made_for_its_node_and_knows_its_revision() -> None:
    """Node affinity to the node replaces the required terms; preferences and tolerations are kept."""
    preferred = (PreferredSchedulingTerm(weight=1),)
    own = Toleration(key="mine", operator="Exists")
    affinity = Affinity(node_affinity=NodeAffinity(preferred_during_scheduling_ignored_during_execution=preferred))
    one = daemon_set({"deprecated.daemonset.template.generation": "3"}, affinity=affinity, tolerations=(own,))
    revision = revision_of(one, "abc")
    template = template_for(one, "n7", revision)
    made = Pod(metadata=template.metadata, spec=template.spec)
    assert target_node(made) == "n7"
    assert matches_node(made.spec, Node(metadata=ObjectMeta(name="n7")))
    assert not matches_node(made.spec, NODE)
    assert template.spec.affinity is not None
    assert template.spec.affinity.node_affinity is not None
    assert template.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution == preferred
    assert template.metadata.labels == {
        "app": "x",
        "controller-revision-hash": "abc",
        "pod-template-generation": "3",
    }
    assert revision.matches(made)
    assert not DaemonPodRevision("other").matches(made)
    assert DaemonPodRevision("other", "3").matches(made)
    assert not DaemonPodRevision("").matches(pod())
    assert template.spec.tolerations[0] == own
    assert len(template.spec.tolerations) == 7
    assert template_for(daemon_set(), "n7", DaemonPodRevision("")).metadata.labels == {"app": "x"}


@pytest.mark.parametrize(
    ("affinity", "node"),
    [
        (None, None),
        (Affinity(), None),
        (Affinity(node_affinity=NodeAffinity()), None),
        (required(), None),
        (required(NodeSelectorTerm(match_expressions=(wanting("metadata.name", "In", "n"),))), None),
        (required(NodeSelectorTerm(match_fields=(wanting("metadata.name", "NotIn", "n"),))), None),
        (required(NodeSelectorTerm(match_fields=(wanting("metadata.name", "In", "n", "m"),))), None),
        (required(NodeSelectorTerm(), NodeSelectorTerm(match_fields=(wanting("metadata.name", "In", "n"),))), "n"),
    ],
)
def test_target_node_of_an_unscheduled_pod(affinity: Affinity | None, node: str | None) -> None:
    """The pod's node affinity decides if it names exactly one node."""
    assert target_node(Pod(spec=PodSpec(affinity=affinity))) == node


TERMS = [
    (wanting("zone", "In", "a", "b"), True),
    (wanting("zone", "NotIn", "a"), False),
    (wanting("zone", "Exists"), True),
    (wanting("zone", "DoesNotExist"), False),
    (wanting("cpus", "Gt", "4"), True),
    (wanting("cpus", "Lt", "4"), False),
    (wanting("cpus", "Gt", "four"), False),
    (wanting("zone", "In"), False),
    (wanting("zone", "Odd"), False),
]


@pytest.mark.parametrize(("wanted", "matches"), TERMS)
def test_label_terms(wanted: NodeSelectorRequirement, matches: bool) -> None:
    """An invalid term matches nothing, but other terms may match."""
    term = NodeSelectorTerm(match_expressions=(wanted,))
    assert matches_node(PodSpec(affinity=required(term)), NODE) == matches
    either = NodeSelectorTerm(match_expressions=(wanting("zone", "Exists"),))
    assert matches_node(PodSpec(affinity=required(term, either)), NODE)


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (wanting("metadata.name", "In", "n1"), True),
        (wanting("metadata.name", "NotIn", "n1"), False),
        (wanting("metadata.name", "NotIn", "n2"), True),
        (wanting("metadata.name", "In", "n1", "n2"), False),
        (wanting("metadata.name", "Exists"), False),
        (wanting("spec.other", "In", ""), True),
    ],
)
def test_field_terms(wanted: NodeSelectorRequirement, matches: bool) -> None:
    """A requirement needs exactly one value; an unknown field is empty. Any valid one matches a node without a name."""
    spec = PodSpec(affinity=required(NodeSelectorTerm(match_fields=(wanted,))))
    assert matches_node(spec, NODE) == matches
    nameless = len(wanted.values) == 1
    assert matches_node(spec, Node()) == nameless
    assert not matches_node(PodSpec(affinity=required(NodeSelectorTerm())), NODE)


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        (Toleration(key="k", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="v", operator="Equal"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="j", operator="Exists"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="k", operator="Odd"), False),
    ],
)
def test_tolerations(toleration: Toleration, tolerates: bool) -> None:
    """An empty effect or key matches all."""
    assert is_tolerated(Taint(key="k", value="v", effect="NoSchedule"), [toleration]) == tolerates


def test_toleration_replaces_one_that_is_limited_in_time() -> None:
    """Daemon pods tolerate the taint without a time limit."""
    wanted = Toleration(key="k", operator="Exists", effect="NoExecute")
    short = Toleration(key="k", operator="Exists", effect="NoExecute", toleration_seconds=300)
    other = Toleration(key="other", operator="Exists")
    assert with_toleration((short, other), wanted) == (wanted, other)
    assert with_toleration((other,), wanted) == (other, wanted)


def test_status_counts() -> None:
    """Only the oldest pod of a node counts. A pod on a node that should not run one is misscheduled."""
    tainted = NodeSpec(taints=(Taint(key="k", effect="NoSchedule"),))
    nodes = {
        "a": Node(metadata=ObjectMeta(name="a")),
        "b": Node(metadata=ObjectMeta(name="b")),
        "c": Node(metadata=ObjectMeta(name="c"), spec=tainted),
        "d": Node(metadata=ObjectMeta(name="d"), spec=tainted),
    }
    ready = PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="True"),))
    labels = {"controller-revision-hash": "h"}
    pods = [
        Pod(metadata=ObjectMeta(name="a1", labels=labels), spec=PodSpec(node_name="a"), status=ready),
        pod("a2", node="a"),
        pod("c1", node="c"),
        pod("over", "Failed", node="b", deletion_timestamp=AT),
        pod("lost", node=""),
    ]
    status = count_status(daemon_set(), nodes.values(), pods_by_node(pods), DaemonPodRevision("h"), EPOCH)
    assert (status.desired_number_scheduled, status.current_number_scheduled) == (2, 1)
    assert (status.number_misscheduled, status.number_ready, status.number_available) == (1, 1, 1)
    assert (status.number_unavailable, status.updated_number_scheduled) == (1, 1)
    assert (
        node_fit(PodSpec(), nodes["c"]) == node_should_run_daemon_pod(daemon_set(), nodes["c"]) == NodeFit(False, True)
    )


def test_unscheduled_pods_of_lost_nodes_are_stranded() -> None:
    """Scheduled pods of lost nodes are left to the pod garbage collector."""
    bound = required(NodeSelectorTerm(match_fields=(wanting("metadata.name", "In", "gone"),)))
    stranded = Pod(metadata=ObjectMeta(name="s"), spec=PodSpec(affinity=bound))
    by_node = pods_by_node([stranded, pod("x", node="gone"), pod("y", node="n1")])
    assert stranded_pods(by_node, {"n1": NODE}) == (stranded,)


def test_delays_double_up_to_a_limit_and_are_forgotten() -> None:
    """After twice the limit without a failure the delay starts over, and old keys are dropped."""
    backoff, now = FailedPodBackoff(), 0.0
    delays = []
    for _ in range(12):
        backoff.start("k", now)
        delays.append(backoff.delay_seconds("k"))
        assert backoff.is_waiting("k", now + delays[-1] - 0.001)
        now += delays[-1]
        assert not backoff.is_waiting("k", now)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
    assert backoff.delay_seconds("other") == 0
    backoff.start("other", now)
    backoff.start("k", now - 900 + 1800 + 0.001)
    assert backoff.delay_seconds("k") == 1
    assert len(backoff) == 2
    backoff.start("new", now + 10_000)
    assert len(backoff) == 1
