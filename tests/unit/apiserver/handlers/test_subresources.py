"""Subresources: status, scale, binding, eviction, ephemeral containers, resize; and events in both groups."""

from typing import Any

import pytest

from verb_requests import APPLY, MERGE, STRATEGIC, Asker, pod

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
SET = {
    "metadata": {"name": "r"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def binding(node: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", **metadata}, "target": {"kind": "Node", "name": node}}


async def test_binding_puts_a_pod_on_a_node_once(asker: Asker) -> None:
    """The binding's annotations are copied; a second binding is a conflict with upstream's message."""
    made = await asker.ask("POST", PODS, pod("a"))
    dry = await asker.ask("POST", f"{PODS}/a/binding?dryRun=All", binding("n"))
    assert dry == SUCCESS
    assert await asker.ask("POST", f"{PODS}/a/binding", binding("n", annotations={"x": "y"})) == SUCCESS
    bound = await asker.ask("GET", f"{PODS}/a")
    assert (bound["spec"]["nodeName"], bound["metadata"]["annotations"]) == ("n", {"x": "y"})
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert bound["metadata"]["generation"] == made["metadata"]["generation"]
    message = 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n"'
    assert await asker.refused("POST", f"{PODS}/a/binding", binding("m")) == (409, message)


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (binding("n", name="b"), (400, "name in URL does not match name in Binding object")),
        (binding(""), (400, "target.name: Required value")),
        (
            {"metadata": {"name": "a"}, "target": {"kind": "Pod", "name": "x"}},
            (400, 'target.kind: Unsupported value: "P'),
        ),
        (
            binding("n", uid="u"),
            (409, 'Operation cannot be fulfilled on pods "a": Precondition failed: UID in precond'),
        ),
    ],
)
async def test_invalid_binding_is_refused(asker: Asker, body: Any, refusal: tuple[int, str]) -> None:
    """The pod stays unbound."""
    await asker.ask("POST", PODS, pod("a"))
    code, message = await asker.refused("POST", f"{PODS}/a/binding", body)
    assert (code, message[: len(refusal[1])]) == refusal
    assert "nodeName" not in (await asker.ask("GET", f"{PODS}/a"))["spec"]


async def test_old_collection_of_bindings_binds_too(asker: Asker) -> None:
    """The pod's name is that of the Binding."""
    await asker.ask("POST", PODS, pod("a"))
    assert await asker.ask("POST", "/api/v1/namespaces/default/bindings", binding("n")) == SUCCESS
    assert (await asker.ask("GET", f"{PODS}/a"))["spec"]["nodeName"] == "n"
    missing = {**binding("n"), "metadata": {"name": "z"}}
    assert (await asker.refused("POST", "/api/v1/namespaces/default/bindings", missing))[0] == 404


async def test_scale_changes_the_replicas_of_its_object(asker: Asker) -> None:
    """It can be read, replaced, patched and applied; each change increments the object's generation."""
    await asker.ask("POST", SETS, SET)
    scale = await asker.ask("GET", f"{SETS}/r/scale")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 0, "selector": "a=b"})
    for method, body, kind in (
        ("PUT", {**scale, "spec": {"replicas": 5}}, ""),
        ("PATCH", {"spec": {"replicas": 6}}, MERGE),
        ("PATCH", {"spec": {"replicas": 7}}, STRATEGIC),
        ("PATCH", {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 8}}, APPLY),
    ):
        query = "?fieldManager=me&force=true" if kind == APPLY else ""
        assert (await asker.ask(method, f"{SETS}/r/scale{query}", body, kind))["spec"] == body["spec"]
    changed = await asker.ask("GET", f"{SETS}/r")
    assert (changed["spec"]["replicas"], changed["metadata"]["generation"]) == (8, 5)


async def test_scale_moves_the_ownership_of_replicas(asker: Asker) -> None:
    """The manager that scales owns the object's replicas; an apply of other replicas conflicts with it."""
    await asker.ask("POST", f"{SETS}?fieldManager=maker", SET)
    await asker.ask("PATCH", f"{SETS}/r/scale?fieldManager=scaler", {"spec": {"replicas": 6}}, MERGE)
    entries = (await asker.ask("GET", f"{SETS}/r"))["metadata"]["managedFields"]
    owners = [entry["manager"] for entry in entries if "f:replicas" in entry["fieldsV1"]["f:spec"]]
    assert owners == ["scaler"]
    wish = {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 8}}
    code, message = await asker.refused("PATCH", f"{SETS}/r/scale?fieldManager=me", wish, APPLY)
    assert (code, message) == (
        409,
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using autoscaling/v1: .spec.replicas',
    )


@pytest.mark.parametrize(
    ("metadata", "replicas", "refusal"),
    [
        (
            {"name": "r"},
            -1,
            (422, 'Scale.autoscaling "r" is invalid: spec.replicas: Invalid value: -1: must be greater'),
        ),
        ({"name": "x"}, 1, (400, "the name of the object (x) does not match the name on the URL (r)")),
        (
            {"name": "r", "resourceVersion": "1"},
            1,
            (409, 'Operation cannot be fulfilled on replicasets.apps "r": the obj'),
        ),
        (
            {"name": "r", "uid": "u"},
            1,
            (409, 'Operation cannot be fulfilled on replicasets/scale.apps "r": Precondition'),
        ),
    ],
)
async def test_bad_scale_is_refused(asker: Asker, metadata: Any, replicas: int, refusal: tuple[int, str]) -> None:
    """The scale of a missing object is not found."""
    await asker.ask("POST", SETS, SET)
    body = {"metadata": metadata, "spec": {"replicas": replicas}}
    code, message = await asker.refused("PUT", f"{SETS}/r/scale", body)
    assert (code, message[: len(refusal[1])]) == refusal
    assert await asker.refused("GET", f"{SETS}/z/scale") == (404, 'replicasets.apps "z" not found')


async def budget(asker: Asker, **status: Any) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}
    await asker.ask("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    await asker.ask("PATCH", f"{BUDGETS}/b/status", {"status": {"observedGeneration": 1, **status}}, MERGE)


async def running(asker: Asker, name: str) -> None:
    await asker.ask("POST", PODS, {**pod(name, nodeName="n"), "metadata": {"name": name, "labels": {"a": "b"}}})
    ready = {"type": "Ready", "status": "True"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    await asker.ask("PATCH", f"{PODS}/{name}/status", status, STRATEGIC)


async def test_eviction_is_counted_by_the_budget_until_it_forbids(asker: Asker) -> None:
    """The first pod is marked with the reason, and the second eviction gets 429."""
    await budget(asker, disruptionsAllowed=1, desiredHealthy=1, currentHealthy=2, expectedPods=2)
    for name in ("p", "q"):
        await running(asker, name)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert await asker.ask("POST", f"{PODS}/p/eviction", body) == SUCCESS
    evicted = await asker.ask("GET", f"{PODS}/p")
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    assert evicted["status"]["conditions"][-1]["reason"] == "EvictionByEvictionAPI"
    counted = (await asker.ask("GET", f"{BUDGETS}/b"))["status"]
    assert (counted["disruptionsAllowed"], list(counted["disruptedPods"])) == (0, ["p"])
    assert counted["conditions"][0]["reason"] == "InsufficientPods"
    code, message = await asker.refused("POST", f"{PODS}/q/eviction", {**body, "metadata": {"name": "q"}})
    assert (code, message) == (429, "Cannot evict pod as it would violate the pod's disruption budget.")


async def test_eviction_of_a_pod_that_does_not_run_needs_no_budget(asker: Asker) -> None:
    """A pending pod is removed at once; the body may have the older version and carry options."""
    await budget(asker, disruptionsAllowed=0)
    await asker.ask("POST", PODS, {**pod("p"), "metadata": {"name": "p", "labels": {"a": "b"}}})
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}
    wrong = {**body, "deleteOptions": {"preconditions": {"uid": "u"}}}
    assert (await asker.refused("POST", f"{PODS}/p/eviction", wrong))[0] == 409
    assert await asker.ask("POST", f"{PODS}/p/eviction?dryRun=All", body) == SUCCESS
    assert (
        await asker.ask("POST", f"{PODS}/p/eviction", {**body, "deleteOptions": {"gracePeriodSeconds": 0}}) == SUCCESS
    )
    assert await asker.refused("POST", f"{PODS}/p/eviction", body) == (404, 'pods "p" not found')
    assert (await asker.refused("POST", f"{PODS}/q/eviction", body))[0] == 400


@pytest.mark.parametrize("wrong", [{"uid": "another"}, {"resourceVersion": "1"}])
async def test_eviction_changes_nothing_when_a_precondition_fails(asker: Asker, wrong: dict[str, str]) -> None:
    """The pod is not even marked: its DisruptionTarget condition would say that it is being evicted."""
    await running(asker, "p")
    before = await asker.ask("GET", f"{PODS}/p")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = {**body, "deleteOptions": {"preconditions": wrong}}
    assert (await asker.refused("POST", f"{PODS}/p/eviction", refused))[0] == 409
    assert await asker.ask("GET", f"{PODS}/p") == before
    right = {name: before["metadata"][name] for name in ("uid", "resourceVersion")}
    allowed = {**body, "deleteOptions": {"preconditions": right}}
    assert await asker.ask("POST", f"{PODS}/p/eviction", allowed) == SUCCESS
    assert "deletionTimestamp" in (await asker.ask("GET", f"{PODS}/p"))["metadata"]


async def test_ephemeral_containers_are_added_only_by_their_subresource(asker: Asker) -> None:
    """A patch of the pod itself is refused; the subresource ignores other changes."""
    await asker.ask("POST", PODS, pod("a", nodeName="n"))
    added = {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}], "priority": 5}}
    assert (await asker.refused("PATCH", f"{PODS}/a", added, STRATEGIC))[0] == 422
    changed = await asker.ask("PATCH", f"{PODS}/a/ephemeralcontainers", added, STRATEGIC)
    assert [one["name"] for one in changed["spec"]["ephemeralContainers"]] == ["e"]
    assert (changed["spec"]["priority"], changed["metadata"]["generation"]) == (0, 2)
    removed = {"spec": {"ephemeralContainers": None}}
    assert (await asker.refused("PATCH", f"{PODS}/a/ephemeralcontainers", removed, MERGE))[0] == 422


async def test_event_is_one_object_in_both_groups(asker: Asker) -> None:
    """It is written in one group, and read, selected, watched and deleted in the other."""
    old, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}
    await asker.ask("POST", old, {**event, "reason": "R", "message": "m", "type": "Normal", "count": 2})
    shown = await asker.ask("GET", f"{new}/e")
    assert (shown["regarding"]["name"], shown["note"], shown["deprecatedCount"]) == ("p", "m", 2)
    listed = await asker.ask("GET", f"{new}?fieldSelector=regarding.name%3Dp")
    assert listed["items"][0]["note"] == "m"
    (told,) = await asker.watch(f"{new}?watch=1&timeoutSeconds=1")
    assert b'"note":"m"' in told.object
    await asker.ask("DELETE", f"{new}/e")
    assert (await asker.refused("GET", f"{old}/e"))[0] == 404


async def test_resource_without_handler_is_not_served(asker: Asker) -> None:
    """The error is 405: reviews are never stored, and a log is not an object."""
    review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await asker.refused("POST", review, {"spec": {}}))[0] == 405
    assert (await asker.refused("GET", f"{PODS}/a/log"))[0] == 405
