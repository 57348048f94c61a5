"""Strategic merge patches: edge cases that the test vectors do not cover."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.patch.errors import MalformedPatchError, PatchError, UnknownFieldError
from pykubelet.api.patch.meta import type_schema
from pykubelet.api.patch.strategic_apply import apply_map, apply_strategic, sort_by_position, without_repeats

Map = dict[str, Any]
POD, NODE, SERVICE = "core.v1.Pod", "core.v1.Node", "core.v1.Service"


def containers(*names: str) -> list[Map]:
    return [{"name": name} for name in names]


def spec(**fields: Any) -> Map:
    return {"spec": fields}


def order(name: str, *items: Any) -> Map:
    return {f"$setElementOrder/{name}": list(items)}


def finalizers(*names: str, **patch: Any) -> Map:
    return {"metadata": {"finalizers": list(names), **patch}}


ORDERED = order("containers", *containers("c"))
CASES: list[Any] = [
    pytest.param(
        spec(containers=containers("a", "b")),
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}, {"name": "c"}], **ORDERED}},
        spec(containers=containers("b", "c")),
        id="new element takes the room of a deleted one and so goes behind the others",
    ),
    pytest.param(
        spec(containers=containers("a", "b")),
        {"spec": {"containers": [{"name": "c"}], **ORDERED}},
        spec(containers=containers("c", "a", "b")),
        id="new element goes first where nothing was deleted",
    ),
    pytest.param(
        spec(),
        {"spec": {"containers": [{"name": "c", "image": None}, {"name": "d", "$patch": "delete"}], **ORDERED}},
        spec(containers=[{"name": "c", "image": None}]),
        id="list that is new is taken without directives but with its nulls",
    ),
    pytest.param(
        spec(containers=containers("a"), nodeName="n"),
        {"spec": order("initContainers", *containers("z"))},
        spec(containers=containers("a"), nodeName="n"),
        id="order of a list that nobody has",
    ),
    pytest.param(
        spec(tolerations=[]),
        {"spec": {"containers": containers("a", "b", "c"), "$setElementOrder/containers": []}},
        spec(tolerations=[], containers=containers("c", "b", "a")),
        id="empty order turns a new list around, since upstream's sort takes unknown elements for out of order",
    ),
    pytest.param(
        spec(containers=containers("a", "b")),
        {"spec": {"containers": containers("x", "y"), "$setElementOrder/containers": []}},
        spec(containers=containers("a", "b", "y", "x")),
        id="empty order lets new elements wander",
    ),
    pytest.param(
        finalizers("a", "a", "b"),
        {"metadata": {"finalizers": ["c"]}},
        finalizers("a", "c", "b"),
        id="repeats of the live list make room for what is new",
    ),
    pytest.param(
        finalizers("a", "a"),
        {"metadata": {"finalizers": ["c"]}},
        finalizers("c", "a"),
        id="a full live list makes none",
    ),
    pytest.param(
        finalizers("a", "b"),
        {"metadata": {"$deleteFromPrimitiveList/finalizers": None}},
        {"metadata": {}},
        id="null list to delete from deletes the list",
    ),
    pytest.param(
        finalizers("a"),
        {"metadata": {"$deleteFromPrimitiveList/": ["a"]}},
        finalizers("a"),
        id="list to delete from without a name",
    ),
    pytest.param(
        spec(containers=containers("a")),
        {"spec": {"containers": {"$patch": "delete"}}},
        spec(),
        id="directive in the place of a list deletes it",
    ),
    pytest.param(
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"a": None, "$deleteFromPrimitiveList/a": {"x": 1}}}},
        {"metadata": {"labels": {}}},
        id="list to delete from where no list is",
    ),
    pytest.param(
        spec(containers=[{"name": "a", "image": "i"}]),
        {"spec": {"containers": [{"$patch": "replace"}, *containers("b", "c", "b")]}},
        spec(containers=containers("b", "b", "c")),
        id="repeated keys of a replacing list come together",
    ),
    pytest.param(
        spec(containers=containers("a")),
        {"spec": {"containers": [{"$patch": "replace"}, *containers("c")], **ORDERED}},
        spec(containers=containers("c")),
        id="replacing list with an order",
    ),
    pytest.param(spec(containers=[]), spec(containers=[]), spec(containers=[]), id="empty on empty"),
]


@pytest.mark.parametrize(("original", "patch", "expected"), CASES)
def test_patch_gives_what_upstream_gives(original: Map, patch: Map, expected: Map) -> None:
    assert apply_strategic(original, patch, POD) == expected


def test_replace_strategy_replaces_the_map_and_keeps_its_nulls() -> None:
    """The selector of a disruption budget is never merged."""
    original = spec(selector={"matchLabels": {"a": "1"}}, minAvailable=1)
    patch = spec(selector={"matchLabels": {"b": None}})
    expected = spec(selector={"matchLabels": {"b": None}}, minAvailable=1)
    assert apply_strategic(original, patch, ("policy/v1", "PodDisruptionBudget")) == expected


def test_result_shares_unpatched_parts_with_the_original() -> None:
    original: Map = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": containers("a", "b"), "volumes": []}}
    result = apply_strategic(original, spec(containers=[{"name": "b", "image": "i"}]), POD)
    assert result["metadata"] is original["metadata"]
    assert result["spec"]["volumes"] is original["spec"]["volumes"]
    assert result["spec"]["containers"][0] is original["spec"]["containers"][0]


FAILURES: list[Any] = [
    pytest.param(spec(), {"spec": {"$setElementOrder": []}}, "setElementOrder list", id="order without a slash"),
    pytest.param(spec(), {"spec": {"$setElementOrderX/a": []}}, "setElementOrder list", id="other word"),
    pytest.param(spec(), {"spec": {"$deleteFromPrimitiveList": []}}, "primitive list", id="deletion without a slash"),
    pytest.param(spec(), {"spec": {"$setElementOrder/containers": "x"}}, "received a string", id="order not a list"),
    pytest.param(
        spec(containers="x"), {"spec": ORDERED}, r"expected a \[\]interface {}, but", id="original not a list"
    ),
    pytest.param(spec(), {"spec": {"containers": None, **ORDERED}}, r"received a %!s\(<nil>\)", id="patch not a list"),
    pytest.param(
        finalizers(), {"metadata": order("finalizers", "a")}, "no elements in any", id="order for an empty list"
    ),
    pytest.param(spec(tolerations=[{"key": "a"}]), {"spec": order("tolerations")}, "scalar", id="maps without a key"),
    pytest.param(
        spec(containers=containers("a")),
        {"spec": {"containers": [{"name": "a"}, {"$patch": "replace"}], **order("containers", *containers("a"))}},
        "doesn't match",
        id="directive behind the last ordered element",
    ),
    pytest.param(finalizers("a"), {"metadata": {"finalizers": [["a"]]}}, "not identical", id="list in a list"),
    pytest.param({"metadata": {"finalizers": [["a"]]}}, finalizers("a"), "lists of lists", id="list of lists"),
    pytest.param({"metadata": {"finalizers": [None]}}, finalizers(), "not identical", id="list of nulls"),
    pytest.param(
        {"metadata": {"finalizers": [{}]}},
        {"metadata": {"finalizers": [{}]}},
        "cannot merge lists without merge key for string",
        id="maps in a list of scalars",
    ),
    pytest.param(
        spec(containers=containers("a")),
        spec(containers=[{"name": "a", "$patch": "merge"}]),
        "cannot yet be specified",
        id="merge directive in a list",
    ),
    pytest.param(
        spec(containers=containers("a")), spec(containers=[{"image": "i"}]), "declared merge key: name", id="no key"
    ),
    pytest.param(
        spec(containers=containers("a")),
        spec(containers=[{"name": None}, {"name": None}]),
        "declared merge key: name",
        id="null key that deletes itself",
    ),
    pytest.param(
        {"spec": {}}, {"spec": {"$patch": 5}}, r"unknown patch type: %!s\(int64=5\)", id="directive not a word"
    ),
    pytest.param(spec(containers=["a"]), {"spec": ORDERED}, "received a string", id="scalar where elements have a key"),
    pytest.param(spec(nodeName="n"), {"spec": {"$retainKeys": "x"}}, "retainKeys", id="retainKeys not a list"),
]


@pytest.mark.parametrize(("original", "patch", "message"), FAILURES)
def test_bad_patch_is_rejected_with_the_message_of_upstream(original: Map, patch: Map, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        apply_strategic(original, patch, POD)


def test_malformed_patch_and_unknown_field_are_different_errors() -> None:
    """A server answers a malformed patch with 400 and an unknown field with 422."""
    with pytest.raises(MalformedPatchError):
        apply_strategic({"spec": {}}, {"spec": {"$patch": "bogus"}}, POD)
    with pytest.raises(UnknownFieldError):
        apply_strategic({"bogus": []}, {"bogus": []}, NODE)
    with pytest.raises(UnknownFieldError):
        apply_strategic({"bogus": {}}, {"bogus": {"a": 1}}, SERVICE)


def combined(first: Map, second: Map) -> Map:
    return apply_map(first, second, type_schema("core.v1.PodSpec"), combining=True)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param({"nodeName": "n"}, {"nodeName": None}, {"nodeName": None}, id="nulls"),
        pytest.param({}, {"hostAliases": [{"ip": None}]}, {"hostAliases": [{"ip": None}]}, id="nulls deep inside"),
        pytest.param(
            {"$retainKeys": ["a"]}, {"$retainKeys": ["a"], "a": 1}, {"$retainKeys": ["a"], "a": 1}, id="retained keys"
        ),
        pytest.param(
            {"$deleteFromPrimitiveList/x": ["a"]},
            {"$deleteFromPrimitiveList/x": ["b"]},
            {"$deleteFromPrimitiveList/x": ["b"]},
            id="deletions of scalars",
        ),
        pytest.param(
            {"containers": [{"name": "a", "$patch": "delete"}], **ORDERED},
            {"containers": containers("c"), **ORDERED},
            {"containers": [*containers("c"), {"name": "a", "$patch": "delete"}], **ORDERED},
            id="order and deleted elements",
        ),
    ],
)
def test_combining_two_patches_keeps_nulls_and_directives(first: Map, second: Map, expected: Map) -> None:
    assert combined(first, second) == expected


@pytest.mark.parametrize("directive", ["$retainKeys", "$setElementOrder/containers"])
def test_combining_patches_that_contradict_each_other_is_refused(directive: str) -> None:
    with pytest.raises(MalformedPatchError):
        combined({directive: ["a"]}, {directive: ["b"]})


@given(st.lists(st.integers(0, 6), max_size=12))
def test_repeats_are_removed_as_upstream_does(items: list[int]) -> None:
    """The last item takes the place of each repeat, also if it is one itself."""
    expected, index = list(items), 0
    while index < len(expected):
        other = index + 1
        while other < len(expected):
            if expected[index] == expected[other]:
                last = expected.pop()
                if other < len(expected):
                    expected[other] = last
            else:
                other += 1
        index += 1
    assert without_repeats(items) == expected


@given(st.lists(st.sampled_from("abcdefg"), max_size=10), st.permutations("abcd"))
def test_items_with_unknown_keys_are_sorted_as_by_upstreams_insertion_sort(keys: list[str], order: list[str]) -> None:
    """An unknown key counts as smaller than the one before it."""
    positions: dict[Any, int] = {key: index for index, key in enumerate(order)}
    pairs: list[tuple[Any, Any]] = [(key, number) for number, key in enumerate(keys)]
    expected = list(pairs)

    def precedes(left: str, right: str) -> bool:
        return left not in positions or right not in positions or positions[left] < positions[right]

    if not all(key in positions for key in keys):
        for index in range(1, len(expected)):
            place = index
            while place > 0 and precedes(expected[place][0], expected[place - 1][0]):
                expected[place - 1], expected[place] = expected[place], expected[place - 1]
                place -= 1
        assert sort_by_position(pairs, positions) == expected
