"""Patch properties for every document: applying a diff yields its target, and inputs are never changed."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykubelet.api.go_print import json_equal
from pykubelet.api.patch.errors import PatchError
from pykubelet.api.patch.json_merge_patch import apply_merge, diff_merge
from pykubelet.api.patch.json_patch import apply_json
from pykubelet.api.patch.strategic_apply import apply_strategic
from pykubelet.api.patch.strategic_diff import diff_strategic, diff_strategic_three_way

Map = dict[str, Any]
Documents = st.SearchStrategy[Map]

modest = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])

words = st.sampled_from(["a", "b", "c", "d", "e"])
labels = st.dictionaries(words, words, max_size=3)


def some(**fields: st.SearchStrategy[Any]) -> Documents:
    """Generates a map with any subset of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def keyed(
    merge_key: str, keys: st.SearchStrategy[Any], **fields: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[Map]]:
    """Generates a list of maps with distinct merge keys."""
    item = st.tuples(keys, some(**fields)).map(lambda pair: {merge_key: pair[0], **pair[1]})
    return st.lists(item, max_size=4, unique_by=lambda element: str(element[merge_key]))


numbers = st.sampled_from([53, 80, 443, 8080])
names = st.lists(words, max_size=4, unique=True)
metadata = some(
    name=words,
    labels=labels,
    annotations=labels,
    finalizers=names,
    ownerReferences=keyed("uid", words, name=words, controller=st.booleans()),
)
containers = keyed(
    "name",
    words,
    image=words,
    args=st.lists(words, max_size=3),
    env=keyed("name", words, value=words),
    ports=keyed("containerPort", numbers, protocol=words),
    resources=some(limits=labels, requests=labels),
)
volumes = keyed("name", words, emptyDir=some(medium=words), hostPath=some(path=words))
pod_spec = some(
    containers=containers,
    volumes=volumes,
    tolerations=st.lists(some(key=words, operator=words), max_size=2),
    nodeSelector=labels,
    terminationGracePeriodSeconds=st.integers(0, 2),
)
conditions = keyed("type", words, status=words, reason=words)
pods = some(
    metadata=metadata, spec=pod_spec, status=some(phase=words, conditions=conditions, podIPs=keyed("ip", words))
)
services = some(metadata=metadata, spec=some(ports=keyed("port", numbers, name=words), selector=labels, type=words))
nodes = some(
    metadata=metadata,
    spec=some(podCIDRs=names, taints=st.lists(some(key=words), max_size=2), unschedulable=st.booleans()),
    status=some(conditions=conditions, addresses=keyed("type", words, address=words), capacity=labels),
)
strategy = some(type=words, rollingUpdate=some(maxSurge=st.one_of(words, st.integers(0, 2))))
deployments = some(
    metadata=metadata,
    spec=some(replicas=st.integers(0, 3), strategy=strategy, template=some(metadata=metadata, spec=pod_spec)),
)
KINDS: list[tuple[str, Documents]] = [
    ("core.v1.Pod", pods),
    ("core.v1.Service", services),
    ("core.v1.Node", nodes),
    ("apps.v1.Deployment", deployments),
]


def typed(count: int) -> st.SearchStrategy[tuple[str, tuple[Map, ...]]]:
    """Generates a definition and `count` documents of it."""
    return st.one_of(*(st.tuples(st.just(name), st.tuples(*[documents] * count)) for name, documents in KINDS))


any_value = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(0, 2), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)
any_path = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-", "-1", "x~1y"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
any_operation = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": any_path},
    optional={"from": any_path, "value": any_value},
)


def unchanged(call: Callable[..., Any], *inputs: Any) -> Any:
    """Returns the result of the call; checks that its inputs are unchanged even when it raises."""
    before = copy.deepcopy(inputs)
    try:
        return call(*inputs)
    finally:
        assert json_equal(list(inputs), list(before))


@modest
@given(typed(2))
def test_applying_a_strategic_diff_yields_its_target(case: tuple[str, tuple[Map, ...]]) -> None:
    definition, (original, modified) = case
    patch = unchanged(lambda a, b: diff_strategic(a, b, definition), original, modified)
    result = unchanged(lambda a, b: apply_strategic(a, b, definition), original, patch)
    assert json_equal(result, modified)


@modest
@given(typed(1))
def test_strategic_diff_of_equal_documents_changes_nothing(case: tuple[str, tuple[Map, ...]]) -> None:
    definition, (document,) = case
    patch = diff_strategic(document, copy.deepcopy(document), definition)
    assert json_equal(apply_strategic(document, patch, definition), document)


@modest
@given(typed(1))
def test_empty_patch_gives_back_the_document_itself(case: tuple[str, tuple[Map, ...]]) -> None:
    definition, (document,) = case
    assert apply_strategic(document, {}, definition) is document
    assert apply_merge(document, {}) is document
    assert apply_json(document, []) is document


@modest
@given(typed(3))
def test_strategic_patch_for_another_document_leaves_its_inputs_alone(case: tuple[str, tuple[Map, ...]]) -> None:
    definition, (original, modified, other) = case
    patch = diff_strategic(original, modified, definition)
    try:
        result = unchanged(lambda a, b: apply_strategic(a, b, definition), other, patch)
    except PatchError:
        return
    shared = [key for key in other if key not in patch]
    assert all(result[key] is other[key] for key in shared)


@modest
@given(typed(2))
def test_three_way_diff_yields_its_target_without_concurrent_changes(
    case: tuple[str, tuple[Map, ...]],
) -> None:
    definition, (original, modified) = case
    current = copy.deepcopy(original)
    patch = unchanged(lambda a, b, c: diff_strategic_three_way(a, b, c, definition), original, modified, current)
    assert json_equal(apply_strategic(current, patch, definition), modified)


@modest
@given(typed(2))
def test_applying_a_merge_diff_yields_its_target(case: tuple[str, tuple[Map, ...]]) -> None:
    _, (original, modified) = case
    patch = unchanged(diff_merge, original, modified)
    assert unchanged(apply_merge, original, patch) == modified


@modest
@given(st.dictionaries(words, any_value, max_size=3), st.lists(any_operation, max_size=5))
def test_json_patch_leaves_its_inputs_alone_whether_it_applies_or_not(document: Map, patch: list[Map]) -> None:
    try:
        unchanged(apply_json, document, patch)
    except PatchError:
        return
