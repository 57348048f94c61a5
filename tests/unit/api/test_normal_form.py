"""Normal form: documents as the API server would return them."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_document import any_document
from pykubelet.api.normal_form import normal_form
from pykubelet.api.pod_resources import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from pykubelet.api.schema import definitions
from pykubelet.kinds.go_values import go_diff

_KINDS = sorted(name for name, known in definitions().items() if known.kind and name != "meta.v1.Status")


@pytest.mark.parametrize(
    ("definition", "given", "expected"),
    [
        pytest.param("core.v1.ConfigMap", {"data": {}, "immutable": False}, {"immutable": False}, id="pointer"),
        pytest.param("core.v1.ConfigMap", {"data": None, "unknown": 1}, {}, id="nulls and strangers"),
        pytest.param(
            "coordination.v1.Lease",
            {"spec": {"renewTime": "2026-01-01T01:00:00.5+01:00"}},
            {"spec": {"renewTime": "2026-01-01T00:00:00.500000Z"}},
            id="micro",
        ),
        pytest.param(
            "core.v1.PodCondition",
            {"type": "Ready", "lastTransitionTime": "2026-01-01T01:00:00.5+01:00"},
            {"type": "Ready", "status": "", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            id="times",
        ),
        pytest.param(
            "core.v1.ResourceRequirements",
            {"limits": {"cpu": "1000m", "memory": "1024Ki"}, "requests": {"cpu": "0.00001"}},
            {"limits": {"cpu": "1", "memory": "1Mi"}, "requests": {"cpu": "1m"}},
            id="quantities",
        ),
    ],
)
def test_document_comes_out_as_go_would_write_it(
    definition: str, given: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Empty optional fields are dropped, required ones are added, and values have one spelling."""
    found = normal_form(given, definition)
    found.pop("metadata", None)
    assert found == expected


@pytest.mark.parametrize("definition", _KINDS)
@given(random=st.randoms(use_true_random=True))
@settings(max_examples=5, deadline=None)
def test_normal_form_is_idempotent(definition: str, random: Any) -> None:
    """For random documents of every kind."""
    once = normal_form(any_document(random, definition), definition)
    assert normal_form(once, definition) == once


def test_difference_shows_three_lines_around_each_change() -> None:
    """The JSON is formatted as Go's encoder does, indented by one blank."""
    old = {"A": 1, "B": {"C": "<x>"}, "D": 2, "E": 3}
    assert go_diff(old, {**old, "D": 5}) == (
        '@@ -3,6 +3,6 @@\n  "B": {\n   "C": "\\u003cx\\u003e"\n  },\n- "D": 2,\n+ "D": 5,\n  "E": 3\n }\n'
    )
    assert go_diff(old, old) == ""


def test_diff_of_a_long_object_shows_the_start_of_the_change() -> None:
    """Its line numbers are those of the whole object; the time does not grow with the square of its length."""
    old = {"A": list(range(50_000))}
    new = {"A": [*range(40_000), -1, *range(40_001, 50_000)]}
    context = "".join(f"   {number},\n" for number in range(39_997, 40_000))
    assert go_diff(old, new).startswith(f"@@ -40000,7 +40000,7 @@\n{context}-  40000,\n+  -1,\n")
    started = time.process_time()
    shuffled = {"A": [number % 97 for number in range(50_000)]}
    changed = {"A": [number % 89 for number in range(50_000)]}
    assert len(go_diff(shuffled, changed).splitlines()) < 3000
    assert time.process_time() - started < 5


_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.sampled_from(["0", "1", "2"]))
_RESOURCES = st.fixed_dictionaries({}, optional={"limits": _AMOUNTS, "requests": _AMOUNTS})


@given(st.lists(_RESOURCES, min_size=1, max_size=3))
@settings(max_examples=100)
def test_qos_class_follows_from_the_resources_of_the_pod(resources: list[dict[str, Any]]) -> None:
    """No requests or limits above zero is BestEffort; Guaranteed needs cpu and memory limits in every container."""
    quality = qos_class({"containers": [{"resources": each} for each in resources]})
    counted = [
        amount
        for each in resources
        for side in each.values()
        for name, amount in side.items()
        if name in {"cpu", "memory"}
    ]
    if all(amount == "0" for amount in counted):
        assert quality == BEST_EFFORT
    else:
        assert quality in {BURSTABLE, GUARANTEED}
    if quality == GUARANTEED:
        assert all({"cpu", "memory"} <= each["limits"].keys() for each in resources)
