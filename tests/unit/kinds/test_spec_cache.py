"""The cache of results for specs that are repeated."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kinds.kind import MAX_RESULTS, MAX_SPEC_BYTES, SpecCache
from pykubelet.kinds.pod.defaults import default_patched_pod, default_pod

SPECS = st.dictionaries(st.sampled_from("abc"), st.sampled_from([0, 1, 1.0, True, False, "1", None]), max_size=3)


@settings(max_examples=50)
@given(st.lists(SPECS, max_size=20))
def test_cached_results_equal_computed_ones(documents: list[dict[str, object]]) -> None:
    families = SpecCache[str]()
    assert [families.of(each, partial(repr, each)) for each in documents] == list(map(repr, documents))


def test_result_is_reused_from_the_third_time_on() -> None:
    """The third call returns the result of the second, unless its other arguments differ."""
    families = SpecCache[list[int]]()
    families.of({"a": 1}, lambda: [1], also="here")
    second = families.of({"a": 1}, lambda: [2], also="here")
    assert second == [2]
    assert families.of({"a": 1}, lambda: [3], also="here") is second
    assert families.of({"a": 1}, lambda: [4], also="there") == [4]


def test_cache_forgets_the_oldest_spec_and_never_holds_a_large_one() -> None:
    """The cache is limited in the number and the size of specs."""
    families = SpecCache[list[int]]()
    for number in range(MAX_RESULTS + 1):
        for _ in range(2):
            families.of({"number": number}, partial(list, [number]))
    assert families.of({"number": 0}, lambda: [-1]) == [-1]
    assert families.of({"number": MAX_RESULTS}, lambda: [-1]) == [MAX_RESULTS]
    large = {"text": "x" * MAX_SPEC_BYTES}
    for number in range(3):
        assert families.of(large, partial(list, [number])) == [number]


def test_patched_pod_gets_the_same_defaults_as_any_other() -> None:
    """An unchanged spec is reused, and a replaced one gets defaults."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    stored = default_pod({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "spec": spec})
    patched = {**stored, "status": {"podIP": "10.0.0.1"}}
    replaced = {**stored, "spec": spec}
    assert default_patched_pod(patched, stored) == default_pod(patched)
    assert default_patched_pod(patched, stored)["spec"] is stored["spec"]
    assert default_patched_pod(replaced, stored) == default_pod(replaced)
