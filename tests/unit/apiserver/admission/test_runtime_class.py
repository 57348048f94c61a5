"""RuntimeClass admission of pods: overhead, node selector and tolerations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.errors import Forbidden
from pykubelet.api.serializer import encode
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.pods import RuntimeClassAdmission, merged_tolerations, with_runtime_class
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey

SANDBOXED = {
    "metadata": {"name": "sandboxed"},
    "handler": "runsc",
    "overhead": {"podFixed": {"cpu": "100m"}},
    "scheduling": {"nodeSelector": {"kind": "vm"}, "tolerations": [{"key": "vm", "operator": "Exists"}]},
}
PODS = next(served for served in BUILT_IN_KINDS if served.resource.group_resource == "pods")
TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from("ab"),
        "operator": st.sampled_from(["Exists", "Equal"]),
        "value": st.sampled_from("xy"),
        "effect": st.sampled_from(["NoExecute", "NoSchedule"]),
        "tolerationSeconds": st.integers(0, 2),
    },
)


def admitted(**spec: Any) -> dict[str, Any]:
    def newest(key: StoreKey) -> StoreEntry | None:
        return StoreEntry(key, 1, encode(SANDBOXED)) if key.name == "sandboxed" else None

    request = AdmissionAttributes(user=UserInfo("u"), verb="create", served=PODS, namespace="default", name="x")
    pod = RuntimeClassAdmission(newest).admit(request, {"metadata": {"name": "x"}, "spec": spec}, None)
    assert pod is not None
    found: dict[str, Any] = pod["spec"]
    return found


def test_new_pod_gets_overhead_and_scheduling_of_its_class() -> None:
    """A pod without a class stays as it is."""
    assert admitted(nodeName="n") == {"nodeName": "n"}
    assert admitted(runtimeClassName="sandboxed", nodeSelector={"a": "b"}) == {
        "runtimeClassName": "sandboxed",
        "overhead": {"cpu": "100m"},
        "nodeSelector": {"a": "b", "kind": "vm"},
        "tolerations": [{"key": "vm", "operator": "Exists"}],
    }
    assert admitted(runtimeClassName="sandboxed", overhead={"cpu": "0.1"})["overhead"] == {"cpu": "100m"}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"runtimeClassName": "nope"}, 'pod rejected: RuntimeClass "nope" not found'),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "sandboxed", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"runtimeClassName": "sandboxed", "nodeSelector": {"kind": "metal"}},
            "conflict: runtimeClass.scheduling.nodeSelector[kind] = vm; pod.spec.nodeSelector[kind] = metal",
        ),
    ],
    ids=["missing", "overhead alone", "other overhead", "other nodes"],
)
def test_pod_that_conflicts_with_its_class_is_refused(spec: dict[str, Any], why: str) -> None:
    """The error has upstream's message."""
    with pytest.raises(Forbidden) as refused:
        admitted(**spec)
    assert refused.value.message == f'pods "x" is forbidden: {why}'


@given(st.lists(TOLERATIONS, max_size=4))
def test_merged_tolerations_are_some_of_the_given_and_merging_again_changes_nothing(
    given: list[dict[str, Any]],
) -> None:
    """The result is empty only for an empty list."""
    merged = merged_tolerations(given)
    assert all(each in given for each in merged)
    assert merged_tolerations(merged) == merged
    assert bool(merged) == bool(given)


@given(st.lists(TOLERATIONS, max_size=3))
def test_class_without_overhead_and_scheduling_changes_nothing(tolerations: list[dict[str, Any]]) -> None:
    """Admission returns the same pod object."""
    pod = {"metadata": {"name": "x"}, "spec": {"tolerations": tolerations}}
    assert with_runtime_class(pod, {"handler": "h"}) is with_runtime_class(pod, None) is pod
