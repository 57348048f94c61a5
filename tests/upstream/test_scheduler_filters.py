"""Which nodes fit a pod, and the message if none does, as in upstream's plugins and FitError (pkg/scheduler)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import Node
from pykubelet.scheduler.filters import run_filters, run_pre_filters
from pykubelet.scheduler.podtopologyspread import HOST_NAME
from pykubelet.scheduler.schedule_one import required_node_names, schedule_pod
from scheduler_views import facts, labelled, node, pod, refusal, view

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
FOO = {"matchExpressions": [{"key": "foo", "operator": "Exists"}]}
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
BAR = {"matchExpressions": [{"key": "bar", "operator": "Exists"}]}
SMALL = {"cpu": "1", "memory": "1Gi", "pods": "2", "example.com/gpu": "1", "ephemeral-storage": "1Gi"}


def reasons(seen_nodes: Sequence[Node], wanted: Mapping[str, Any], pods: Mapping[str, Any] | None = None) -> list[str]:
    """Why the first node does not fit the pod; empty if it fits."""
    seen, asking = view(seen_nodes, pods), facts("asking", **wanted)
    found = run_filters(run_pre_filters(asking, seen), next(iter(seen.nodes.values())))
    return [] if found is None else list(found.reasons)


@pytest.mark.parametrize(
    ("wanted", "taken", "expected"),
    [
        ({"requests": [{"cpu": "500m", "memory": "1Gi"}]}, [{"cpu": "500m"}], []),
        ({"requests": [{"cpu": "501m"}]}, [{"cpu": "500m"}], ["Insufficient cpu"]),
        ({"requests": [{"cpu": "2", "memory": "2Gi"}]}, [], ["Insufficient cpu", "Insufficient memory"]),
        ({"requests": [{"ephemeral-storage": "2Gi"}]}, [], ["Insufficient ephemeral-storage"]),
        ({"requests": [{"example.com/gpu": "1"}]}, [{"example.com/gpu": "1"}], ["Insufficient example.com/gpu"]),
        ({"requests": [{"example.com/other": "1"}]}, [], ["Insufficient example.com/other"]),
        ({}, [{}, {}], ["Too many pods"]),
        ({"overhead": {"cpu": "600m"}, "requests": [{"cpu": "500m"}]}, [], ["Insufficient cpu"]),
        ({"initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}]}, [], ["Insufficient cpu"]),
        ({"requests": [{"cpu": "0"}]}, [{"cpu": "5"}], []),
    ],
    ids=["fits", "cpu", "two", "storage", "extended", "unknown", "pods", "overhead", "init", "zero"],
)
def test_resources(wanted: Mapping[str, Any], taken: Sequence[Mapping[str, str]], expected: Sequence[str]) -> None:
    """Every insufficient resource is named."""
    pods = {"n1": [pod(f"t{index}", requests=[each]) for index, each in enumerate(taken)]}
    assert reasons([node("n1", allocatable=SMALL)], wanted, pods) == list(expected)


def test_node_that_states_no_room_for_pods_takes_none() -> None:
    assert reasons([node("n1", allocatable={"cpu": "1", "pods": "0"})], {}) == ["Too many pods"]
    unstated = node("n1")
    assert reasons([replace(unstated, status=replace(unstated.status, allocatable={}))], {}) == ["Too many pods"]


def port(number: int, address: str = "", protocol: str = "TCP") -> dict[str, Any]:
    ports = [{"containerPort": 80, "hostPort": number, "hostIP": address, "protocol": protocol}]
    return {"containers": [{"name": "c", "ports": ports}]}


@pytest.mark.parametrize(
    ("fields", "wanted", "expected"),
    [
        ({"unschedulable": True}, {}, "node(s) were unschedulable"),
        ({"unschedulable": True}, {"tolerations": [{"operator": "Exists"}]}, ""),
        ({}, {"nodeName": "other"}, "node(s) didn't match the requested node name"),
        ({"taints": [{"key": "a", "effect": "NoExecute"}]}, {}, "node(s) had untolerated taint(s)"),
        ({"taints": [{"key": "a", "effect": "PreferNoSchedule"}]}, {}, ""),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, {"tolerations": [{"key": "a", "operator": "Exists"}]}, ""),
        ({"labels": {"disk": "ssd"}}, {"nodeSelector": {"disk": "ssd"}}, ""),
        ({}, {"nodeSelector": {"disk": "ssd"}}, "node(s) didn't match Pod's node affinity/selector"),
        ({}, port(8080), "node(s) didn't have free ports for the requested pod ports"),
        ({}, port(8080, "127.0.0.1"), "node(s) didn't have free ports for the requested pod ports"),
        ({}, port(8080, protocol="UDP"), ""),
        ({}, port(8081), ""),
    ],
    ids=[
        "cordon",
        "cordon tolerated",
        "name",
        "taint",
        "soft taint",
        "tolerated",
        "selected",
        "not selected",
        "port",
        "port of an address",
        "other protocol",
        "other port",
    ],
)
def test_node_and_ports(fields: Mapping[str, Any], wanted: Mapping[str, Any], expected: str) -> None:
    """Another pod on the node uses host port 8080 of all addresses."""
    found = reasons([node("n1", **fields)], wanted, {"n1": [pod("there", **port(8080))]})
    assert found == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("counts", "fields", "expected"),
    [
        ((1, 0), {}, ["node(s) didn't match pod topology spread constraints"]),
        ((0, 1), {}, []),
        ((1, 0), {"maxSkew": 2}, []),
        ((0, 0), {"minDomains": 3}, []),
        ((1, 1), {"minDomains": 3}, ["node(s) didn't match pod topology spread constraints"]),
        ((5, 0), {"labelSelector": {"matchLabels": {"app": "other"}}}, []),
        ((5, 0), {"labelSelector": {}}, []),
        (
            (0, 0),
            {"topologyKey": "rack"},
            ["node(s) didn't match pod topology spread constraints (missing required label)"],
        ),
    ],
    ids=["uneven", "even", "skew 2", "few domains", "few domains, full", "others", "no selector", "no label"],
)
def test_hard_spread(counts: tuple[int, int], fields: Mapping[str, Any], expected: Sequence[str]) -> None:
    """Two nodes have this many matching pods each, and the first of them is filtered."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST_NAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": FOO,
        **fields,
    }
    nodes = [node(name, labels={HOST_NAME: name}) for name in ("n1", "n2")]
    pods = {name: labelled(count, name, foo="") for name, count in zip(("n1", "n2"), counts, strict=True)}
    wanted = {"labels": {"foo": ""}, "topologySpreadConstraints": [constraint]}
    assert reasons(nodes, wanted, pods) == list(expected)


@pytest.mark.parametrize(
    ("version", "fields", "is_refused"),
    [
        ("1", {"labelSelector": FOO}, True),
        ("2", {"labelSelector": FOO}, False),
        ("", {"labelSelector": FOO}, True),
        ("1", {}, False),
        ("1", {"labelSelector": {}}, True),
    ],
    ids=["same", "other", "none", "no selector", "any pod"],
)
def test_hard_spread_counts_pods_with_the_same_values_of_its_keys(
    version: str, fields: Mapping[str, Any], is_refused: bool
) -> None:
    """Three pods of version 1 are on the first of two nodes. A key that the pod does not have is ignored."""
    constraint = {"maxSkew": 1, "topologyKey": HOST_NAME, "whenUnsatisfiable": "DoNotSchedule", **fields}
    nodes = [node(name, labels={HOST_NAME: name}) for name in ("n1", "n2")]
    wanted = {
        "labels": {"foo": ""} | ({"version": version} if version else {}),
        "topologySpreadConstraints": [{**constraint, "matchLabelKeys": ["version"]}],
    }
    found = reasons(nodes, wanted, {"n1": labelled(3, "p", foo="", version="1")})
    assert found == (["node(s) didn't match pod topology spread constraints"] if is_refused else [])


@pytest.mark.parametrize(
    ("policies", "second", "wanted", "is_counted"),
    [
        ({}, {}, {}, True),
        ({}, {}, {"nodeSelector": {"disk": "ssd"}}, False),
        ({"nodeAffinityPolicy": "Ignore"}, {}, {"nodeSelector": {"disk": "ssd"}}, True),
        ({}, {"taints": [TAINT]}, {}, True),
        ({"nodeTaintsPolicy": "Honor"}, {"taints": [TAINT]}, {}, False),
        ({"nodeTaintsPolicy": "Honor"}, {"taints": [{**TAINT, "effect": "NoExecute"}]}, {}, False),
        ({"nodeTaintsPolicy": "Honor"}, {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}, {}, True),
        ({"nodeTaintsPolicy": "Honor"}, {"taints": [TAINT]}, {"tolerations": [{"operator": "Exists"}]}, True),
    ],
    ids=["plain", "selector", "ignored", "tainted", "honored", "executing", "preferring", "tolerated"],
)
def test_hard_spread_counts_nodes_that_its_policies_include(
    policies: Mapping[str, Any], second: Mapping[str, Any], wanted: Mapping[str, Any], *, is_counted: bool
) -> None:
    """The second node is empty: if it is a domain, the first one, which has a pod, may not get another."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": HOST_NAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": FOO,
        **policies,
    }
    nodes = [node("n1", labels={HOST_NAME: "n1", "disk": "ssd"}), node("n2", labels={HOST_NAME: "n2"}, **second)]
    asking = {"labels": {"foo": ""}, "topologySpreadConstraints": [constraint], **wanted}
    found = reasons(nodes, asking, {"n1": labelled(1, "p", foo="")})
    assert found == (["node(s) didn't match pod topology spread constraints"] if is_counted else [])


def term(**fields: Any) -> list[dict[str, Any]]:
    return [{"labelSelector": FOO, "topologyKey": "zone", **fields}]


@pytest.mark.parametrize(
    ("affinity", "there", "own", "expected"),
    [
        ({"podAffinity": {REQUIRED: term()}}, {"labels": {"foo": ""}}, {}, []),
        ({"podAffinity": {REQUIRED: term()}}, {}, {}, ["node(s) didn't match pod affinity rules"]),
        ({"podAffinity": {REQUIRED: term()}}, {}, {"foo": ""}, []),
        (
            {"podAffinity": {REQUIRED: term(topologyKey="rack")}},
            {},
            {"foo": ""},
            ["node(s) didn't match pod affinity rules"],
        ),
        (
            {"podAntiAffinity": {REQUIRED: term()}},
            {"labels": {"foo": ""}},
            {},
            ["node(s) didn't match pod anti-affinity rules"],
        ),
        ({"podAntiAffinity": {REQUIRED: term()}}, {"labels": {"foo": ""}, "namespace": "shop"}, {}, []),
        (
            {"podAntiAffinity": {REQUIRED: term(namespaceSelector={})}},
            {"labels": {"foo": ""}, "namespace": "shop"},
            {},
            ["node(s) didn't match pod anti-affinity rules"],
        ),
        (
            {},
            {"affinity": {"podAntiAffinity": {REQUIRED: term()}}},
            {"foo": ""},
            ["node(s) didn't satisfy existing pods anti-affinity rules"],
        ),
        ({}, {"affinity": {"podAntiAffinity": {REQUIRED: term()}}}, {}, []),
        # A pod may be the first of its kind only if it matches each of its terms itself.
        ({"podAffinity": {REQUIRED: [*term(), *term(labelSelector=BAR)]}}, {}, {"foo": "", "bar": ""}, []),
        (
            {"podAffinity": {REQUIRED: [*term(), *term(labelSelector=BAR)]}},
            {},
            {"foo": ""},
            ["node(s) didn't match pod affinity rules"],
        ),
        ({"podAffinity": {REQUIRED: [*term(), *term(labelSelector=BAR)]}}, {"labels": {"foo": "", "bar": ""}}, {}, []),
        (
            {"podAffinity": {REQUIRED: [*term(), *term(labelSelector=BAR)]}},
            {"labels": {"foo": ""}},
            {},
            ["node(s) didn't match pod affinity rules"],
        ),
    ],
    ids=[
        "near",
        "not near",
        "first of its kind",
        "no such label",
        "shuns",
        "other namespace",
        "all namespaces",
        "shunned",
        "shuns others",
        "first of both kinds",
        "first of one kind",
        "near one of both kinds",
        "near one of one kind",
    ],
)
def test_pod_affinity(
    affinity: Mapping[str, Any], there: Mapping[str, Any], own: Mapping[str, str], expected: Sequence[str]
) -> None:
    """The other pod is on another node of the same zone."""
    nodes = [node(name, labels={"zone": "a"}) for name in ("n1", "n2")]
    assert reasons(nodes, {"affinity": affinity, "labels": own}, {"n2": [pod("there", **there)]}) == list(expected)


def test_message_counts_reasons_and_preemption_outcomes() -> None:
    """Reasons are sorted as texts; preemption could help where a pod has less priority, but not on too small a node."""
    nodes = [node(f"big{number}", allocatable={"cpu": "2"}) for number in range(10)]
    nodes += [node("small", allocatable={"cpu": "1"}), node("tainted", taints=[{"key": "a", "effect": "NoSchedule"}])]
    pods = {f"big{number}": [pod(f"t{number}", requests=[{"cpu": "1"}], priority=5)] for number in range(10)}
    pods["big0"].append(pod("lesser", requests=[{"cpu": "100m"}], priority=1))
    found = schedule_pod(facts(requests=[{"cpu": "1500m"}], priority=5), view(nodes, pods))
    assert refusal(found) == (
        "0/12 nodes are available: 1 node(s) had untolerated taint(s), 11 Insufficient cpu. "
        "preemption: 0/12 nodes are available: 1 Insufficient cpu, "
        "2 Preemption is not helpful for scheduling, 9 No preemption victims found for incoming pod."
    )
    never = schedule_pod(facts(requests=[{"cpu": "200"}], preemptionPolicy="Never"), view(nodes[:1]))
    assert refusal(never) == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )


def named(*lists: Sequence[str]) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": list(each)} for each in lists]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": fields}]}}}


def test_pod_that_names_its_node_is_tried_on_that_node_only() -> None:
    """A pod of a DaemonSet names its node in this way."""
    nodes = [node("n1", allocatable={"cpu": "1"}), node("n2"), node("n3")]
    assert schedule_pod(facts(affinity=named(["n2"])), view(nodes)) == "n2"
    assert required_node_names(pod(affinity=named(["n2", "n1"], ["n2", "n3"])).spec) == frozenset({"n2"})
    tail = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    full = schedule_pod(facts(affinity=named(["n1"]), requests=[{"cpu": "2"}]), view(nodes))
    assert refusal(full) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. " + tail
    )
    torn = schedule_pod(facts(affinity=named(["n1"], ["n2"])), view(nodes))
    assert refusal(torn) == "0/3 nodes are available: pod affinity terms conflict. " + tail
