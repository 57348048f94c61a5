"""The pod and the container that exec, logs and port-forward choose."""

from typing import Any

import pytest

from pykubelet.cli.actions.polymorphichelpers import container_names, default_container, preferred_pod, selector_of_pods


@pytest.mark.parametrize(
    ("owner", "selector"),
    [
        ({"kind": "Service", "spec": {"selector": {"b": "2", "a": "1"}}}, "a=1,b=2"),
        ({"kind": "Service", "spec": {}}, ""),
        ({"kind": "Deployment", "spec": {"selector": {"matchLabels": {"a": "1"}}}}, "a=1"),
        (
            {"kind": "Job", "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}},
            "a",
        ),
        ({"kind": "ConfigMap"}, ""),
    ],
)
def test_selector_of_pods_is_read_from_their_owner(owner: dict[str, Any], selector: str) -> None:
    """Services have a map of labels, all other owners a label selector."""
    assert selector_of_pods(owner) == selector


def pod(name: str, **facts: Any) -> dict[str, Any]:
    ready = {
        "type": "Ready",
        "status": facts.get("ready", "True"),
        "lastTransitionTime": facts.get("since", "2026-01-02"),
    }
    return {
        "metadata": {"name": name, "creationTimestamp": facts.get("created", "2026-01-01")},
        "spec": {"nodeName": facts.get("node", "n1")},
        "status": {
            "phase": facts.get("phase", "Running"),
            "conditions": [ready],
            "containerStatuses": [{"restartCount": facts.get("restarts", 0)}],
        },
    }


@pytest.mark.parametrize(
    "worse",
    [
        {"node": ""},
        {"phase": "Pending"},
        {"phase": "Unknown"},
        {"ready": "False"},
        {"since": "2026-01-03"},
        {"restarts": 3},
        {"created": "2026-01-02"},
    ],
    ids=str,
)
def test_preferred_pod_is_the_one_most_likely_to_work(worse: dict[str, Any]) -> None:
    """Scheduled, running, ready, ready for longer, with fewer restarts, older."""
    assert preferred_pod([pod("worse", **worse), pod("good")])["metadata"]["name"] == "good"


SPEC = {
    "initContainers": [{"name": "first"}],
    "containers": [{"name": "main"}, {"name": "side"}],
    "ephemeralContainers": [{"name": "debug"}],
}


def test_containers_are_listed_as_they_run() -> None:
    """Init containers, then regular containers, then ephemeral containers."""
    assert container_names({"spec": SPEC}) == ("first", "main", "side", "debug")


def test_first_container_is_the_default_with_a_notice() -> None:
    """There is no notice when the pod has a single container."""
    told = 'Defaulted container "main" out of: main, side, debug (ephem), first (init)'
    assert default_container({"metadata": {}, "spec": SPEC}) == ("main", told)
    assert default_container({"metadata": {}, "spec": {"containers": [{"name": "one"}]}}) == ("one", "")


@pytest.mark.parametrize(("wish", "chosen"), [("side", "side"), ("gone", "main")])
def test_annotation_names_the_default_container(wish: str, chosen: str) -> None:
    """The annotation is ignored when there is no such container."""
    metadata = {"annotations": {"kubectl.kubernetes.io/default-container": wish}}
    assert default_container({"metadata": metadata, "spec": SPEC})[0] == chosen
