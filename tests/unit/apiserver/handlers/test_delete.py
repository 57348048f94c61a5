"""Deleting objects: grace period, finalizers, preconditions, dependents, collections."""

import asyncio
from typing import Any

import pytest

from pykubelet.apiserver.storage.interfaces import StoreKey
from verb_requests import MERGE, Asker, config_map, pod

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
HOLD = ["example.com/hold"]


async def test_deletion_is_answered_with_a_status_or_the_object(asker: Asker) -> None:
    """The kind decides which; a Status names the deleted object."""
    made = await asker.ask("POST", MAPS, config_map("a"))
    status = await asker.ask("DELETE", f"{MAPS}/a")
    details = {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    expected = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    assert status == expected
    assert await asker.refused("DELETE", f"{MAPS}/a") == (404, 'configmaps "a" not found')
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    account = await asker.ask("POST", accounts, {"metadata": {"name": "a"}})
    assert await asker.ask("DELETE", f"{accounts}/a") == account


async def test_grace_period_can_only_be_shortened(asker: Asker) -> None:
    """A bound pod waits for its node; a longer period changes nothing, and zero removes the pod."""
    await asker.ask("POST", PODS, pod("a", nodeName="n", terminationGracePeriodSeconds=20))
    marked = await asker.ask("DELETE", f"{PODS}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 20
    assert marked["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:20Z"
    assert await asker.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=30") == marked
    sooner = await asker.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5})
    assert sooner["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:05Z"
    assert sooner["metadata"]["generation"] == marked["metadata"]["generation"] == 2
    await asker.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=0")
    assert (await asker.refused("GET", f"{PODS}/a"))[0] == 404


async def test_pod_without_grace_stays_when_it_changes_between_mark_and_removal(asker: Asker) -> None:
    """Only the marked pod is removed, and not another one that has taken its place since."""
    made = await asker.ask("POST", PODS, pod("a", nodeName="n"))
    key, store = StoreKey("pods", "default", "a"), asker.api.store
    removal = asyncio.create_task(asker.ask("DELETE", f"{PODS}/a?gracePeriodSeconds=0"))
    while (marked := store.newest(key)) is not None and "deletionTimestamp" not in marked.document["metadata"]:
        await asyncio.sleep(0)
    assert marked is not None
    other = {**marked.document, "metadata": {"name": "a", "namespace": "default", "uid": "another"}}
    await store.write(key, lambda _: other)
    assert (await removal)["metadata"]["uid"] == made["metadata"]["uid"]
    assert (await asker.ask("GET", f"{PODS}/a"))["metadata"]["uid"] == "another"


async def test_object_waits_for_its_finalizers_and_takes_no_new_ones(asker: Asker) -> None:
    """The update that removes the last finalizer also removes the object, and returns it."""
    await asker.ask("POST", MAPS, config_map("a", finalizers=HOLD))
    marked = await asker.ask("DELETE", f"{MAPS}/a")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    again = await asker.ask("PATCH", f"{MAPS}/a", {"metadata": {"deletionTimestamp": None}}, MERGE)
    assert again == marked
    code, _ = await asker.refused(
        "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": [*HOLD, "example.com/more"]}}, MERGE
    )
    assert code == 422
    released = await asker.ask("PUT", f"{MAPS}/a", config_map("a"))
    assert "finalizers" not in released["metadata"]
    assert (await asker.refused("GET", f"{MAPS}/a"))[0] == 404


@pytest.mark.parametrize(
    ("query", "body", "finalizers", "code"),
    [
        ("?propagationPolicy=Foreground", None, ["foregroundDeletion"], 200),
        ("?propagationPolicy=Orphan", None, ["orphan"], 200),
        ("?orphanDependents=true", None, ["orphan"], 200),
        ("", {"propagationPolicy": "Foreground"}, ["foregroundDeletion"], 200),
        ("", {"orphanDependents": True}, ["orphan"], 200),
    ],
)
async def test_propagation_policy_becomes_a_finalizer(
    asker: Asker, query: str, body: Any, finalizers: list[str], code: int
) -> None:
    """The finalizer instructs the garbage collector."""
    await asker.ask("POST", MAPS, config_map("a"))
    answer = await asker.answer("DELETE", f"{MAPS}/a{query}", body)
    assert answer.code == code
    assert answer.document["metadata"]["finalizers"] == finalizers


async def test_deleted_job_keeps_its_pods_by_default(asker: Asker) -> None:
    """The answer warns about it; with policy Background it does not."""
    containers = [{"name": "c", "image": "x"}]
    job = {
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }
    await asker.ask("POST", JOBS, job)
    answer = await asker.answer("DELETE", f"{JOBS}/j")
    assert answer.warnings[0].startswith("child pods are preserved by default when jobs are deleted")
    assert "orphan" in answer.document["metadata"]["finalizers"]
    await asker.ask("POST", JOBS, {**job, "metadata": {"name": "k"}})
    answer = await asker.answer("DELETE", f"{JOBS}/k?propagationPolicy=Background")
    assert (answer.warnings, answer.document["status"]) == ((), "Success")


@pytest.mark.parametrize(
    ("query", "body", "refusal"),
    [
        ("?gracePeriodSeconds=x", None, (400, 'strconv.ParseInt: parsing "x": invalid syntax')),
        (
            "?propagationPolicy=Nope",
            None,
            (422, 'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupport'),
        ),
        (
            "",
            {"orphanDependents": True, "propagationPolicy": "Orphan"},
            (422, 'DeleteOptions.meta.k8s.io "" is invalid: '),
        ),
        (
            "",
            {"dryRun": ["Some"]},
            (422, 'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]'),
        ),
        (
            "",
            {"gracePeriodSeconds": "x"},
            (400, "json: cannot unmarshal string into Go struct field DeleteOptions.grace"),
        ),
        ("", b"{", (400, "couldn't get version/kind; json parse error: unexpected end of JSON input")),
        ("", b"[]", (400, "couldn't get version/kind; json parse error: json: cannot unmarshal it into an object")),
        ("", {"kind": "Pod"}, (400, "decoded object cannot be converted to DeleteOptions")),
        (
            "",
            {"preconditions": {"uid": "u"}},
            (409, 'Operation cannot be fulfilled on ConfigMap "a": the UID in the p'),
        ),
    ],
)
async def test_bad_options_are_refused(asker: Asker, query: str, body: Any, refusal: tuple[int, str]) -> None:
    """The object is not deleted."""
    await asker.ask("POST", MAPS, config_map("a"))
    code, message = await asker.refused("DELETE", f"{MAPS}/a{query}", body)
    assert (code, message[: len(refusal[1])]) == refusal
    assert await asker.ask("GET", f"{MAPS}/a")


async def test_collection_is_deleted_by_selector(asker: Asker) -> None:
    """The answer lists what was deleted; others stay, those with finalizers are marked."""
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"})):
        await asker.ask("POST", MAPS, config_map(name, labels=labels, finalizers=HOLD if name == "c" else []))
    listed = await asker.ask("DELETE", f"{MAPS}?labelSelector=x%3D1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "c"]
    left = (await asker.ask("GET", MAPS))["items"]
    assert [(item["metadata"]["name"], "deletionTimestamp" in item["metadata"]) for item in left] == [
        ("b", False),
        ("c", True),
    ]
