"""What admission fills in: tolerations, priorities, taints, addresses."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.errors import Forbidden
from pykubelet.api.serializer import encode
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.noderestriction import NodeTaint
from pykubelet.apiserver.admission.pods import PriorityAndTolerations, with_default_tolerations, with_old_priority
from pykubelet.apiserver.admission.services import ServiceAllocation
from pykubelet.apiserver.handlers.write import run_admission
from pykubelet.apiserver.registry import BUILT_IN_KINDS
from pykubelet.apiserver.request import UserInfo
from pykubelet.apiserver.storage.interfaces import StoreEntry, StoreKey
from pykubelet.kinds.service import strategy as service
from verb_requests import MERGE, Asker

SERVICES = service.KIND.strategy

_SERVED = {served.resource.group_resource: served for served in BUILT_IN_KINDS}
_TAINTS = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
_CLASSES = {
    "high": {"value": 1000, "preemptionPolicy": "Never"},
    "low": {"value": 1, "globalDefault": True, "preemptionPolicy": "PreemptLowerPriority"},
    "middle": {"value": 10, "globalDefault": True, "preemptionPolicy": "PreemptLowerPriority"},
}


def _request(plural: str, name: str = "x", *, dry_run: bool = False) -> AdmissionAttributes:
    return AdmissionAttributes(
        user=UserInfo("u"), verb="create", served=_SERVED[plural], namespace="default", name=name, dry_run=dry_run
    )


def _entry(collection: str, name: str, document: dict[str, Any]) -> StoreEntry:
    metadata = {"name": name, "namespace": "default"}
    return StoreEntry(StoreKey(collection, "default", name), 1, encode({"metadata": metadata, **document}))


def _pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": spec}


def _admitted(classes: list[str], **spec: Any) -> dict[str, Any]:
    entries = [_entry("priorityclasses.scheduling.k8s.io", name, _CLASSES[name]) for name in classes]
    pod = PriorityAndTolerations(lambda: entries).admit(_request("pods"), _pod(**spec), None)
    assert pod is not None
    found: dict[str, Any] = pod["spec"]
    return {name: found.get(name) for name in ("priorityClassName", "priority", "preemptionPolicy")}


@pytest.mark.parametrize(
    ("classes", "spec", "expected"),
    [
        pytest.param([], {}, (None, 0, "PreemptLowerPriority"), id="no class"),
        pytest.param(["high"], {"priorityClassName": "high"}, ("high", 1000, "Never"), id="named"),
        pytest.param(["middle", "low"], {}, ("low", 1, "PreemptLowerPriority"), id="lowest default"),
        pytest.param(["low"], {"priority": 1}, ("low", 1, "PreemptLowerPriority"), id="given and right"),
    ],
)
def test_pod_gets_the_priority_of_its_class(
    classes: list[str], spec: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert tuple(_admitted(classes, **spec).values()) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "none"}, 'pods "x" is forbidden: no PriorityClass with name none was found'),
        (
            {"priority": 7},
            'pods "x" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name',
        ),
        (
            {"preemptionPolicy": "Never"},
            'pods "x" is forbidden: the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission controller computed PreemptLowerPriority from the given PriorityClass name',
        ),
    ],
)
def test_pod_is_refused_when_its_priority_is_not_that_of_its_class(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(Forbidden) as caught:
        _admitted([], **spec)
    assert caught.value.message == message


def test_update_keeps_the_priority_that_admission_had_given() -> None:
    """The new pod lacks both fields, as when a client sends its manifest again."""
    old = _pod(priority=5, preemptionPolicy="Never")
    new = PriorityAndTolerations(list).admit(_request("pods"), _pod(), old)
    assert new is not None
    assert (new["spec"]["priority"], new["spec"]["preemptionPolicy"]) == (5, "Never")


_TOLERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from([*_TAINTS, "other"]),
        "effect": st.sampled_from(["NoExecute", "NoSchedule"]),
        "operator": st.just("Exists"),
    },
)


@given(st.lists(_TOLERATIONS, max_size=4))
@settings(max_examples=100)
def test_pod_tolerates_not_ready_and_unreachable_nodes_by_default(tolerations: list[dict[str, str]]) -> None:
    """The pod's own tolerations stay first; a second pass adds nothing."""
    pod = with_default_tolerations(_pod(tolerations=tolerations))
    found = pod["spec"]["tolerations"]
    assert found[: len(tolerations)] == tolerations
    for taint in _TAINTS:
        assert any(each.get("key", taint) == taint and each.get("effect", "NoExecute") == "NoExecute" for each in found)
    assert with_default_tolerations(pod) is pod


def test_plugins_leave_other_kinds_and_deletions_alone() -> None:
    document = _pod()
    for rule in (PriorityAndTolerations(list), ServiceAllocation(list), NodeTaint()):
        assert run_admission((rule,), _request("configmaps"), document, None) is document
        assert rule.admit(_request("pods"), None, document) is None


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"priority": 1, "preemptionPolicy": "Never"}, {}, {"priority": 1, "preemptionPolicy": "Never"}),
        ({"priority": 1}, {}, {"priority": 1}),
        ({"priority": 1}, {"priority": 2}, {"priority": 2}),
        ({}, {"priority": 2}, {"priority": 2}),
        ({"hostname": "h"}, {}, {}),
    ],
    ids=["omitted", "without a policy", "changed", "new", "another field"],
)
def test_update_that_omits_the_priority_keeps_it(
    old: dict[str, Any], new: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert with_old_priority(_pod(**new), _pod(**old)) == _pod(**expected)


def test_new_node_gets_a_taint_and_a_known_one_does_not() -> None:
    node = {"metadata": {"name": "n"}, "spec": {}}
    tainted = NodeTaint().admit(_request("nodes"), node, None)
    assert tainted is not None
    assert len(tainted["spec"]["taints"]) == 1
    assert NodeTaint().admit(_request("nodes"), node, node) is node


def test_services_get_different_addresses_even_before_readers_see_them() -> None:
    """An address that a dry run received stays free."""
    seen: list[StoreEntry] = []
    rule = ServiceAllocation(lambda: seen)

    def address(name: str, *, dry_run: bool = False) -> str:
        service = SERVICES.default({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})
        found = rule.admit(_request("services", name, dry_run=dry_run), service, None)
        assert found is not None
        if name == "seen":
            seen.append(_entry("services", name, {"spec": found["spec"]}))
        text: str = found["spec"]["clusterIP"]
        return text

    trial = address("trial", dry_run=True)
    given_away = [address(name) for name in ("a", "b", "seen", "c")]
    assert len(set(given_away)) == 4
    assert trial == given_away[0]
    assert address("a") not in {*given_away[1:]}


async def test_only_one_priority_class_is_the_default(asker: Asker) -> None:
    """The default may change otherwise; a second one is refused, whether it is new or becomes the default."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1}
    await asker.ask("POST", path, {**body, "metadata": {"name": "a"}, "globalDefault": True})
    await asker.ask("PATCH", f"{path}/a", {"description": "d"}, MERGE)
    await asker.ask("POST", path, {**body, "metadata": {"name": "b"}})
    second = {**body, "metadata": {"name": "c"}, "globalDefault": True}
    why = "PriorityClass a is already marked as default. Only one default can exist"
    refused = 'priorityclasses.scheduling.k8s.io "{}" is forbidden: ' + why
    assert await asker.refused("POST", path, second) == (403, refused.format("c"))
    assert await asker.refused("PATCH", f"{path}/b", {"globalDefault": True}, MERGE) == (403, refused.format("b"))
