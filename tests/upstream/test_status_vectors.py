"""The status manager compared with Kubernetes 1.34.11 itself: tests/upstream/vectors/*.json.

Two departures (design section 6) apply to status-manager.json. There is no GET before a PATCH, so `get` calls do not
count. And a terminal phase is a latch: every script is replayed once with upstream's rule instead, where all steps
must be equal, and once with the latch, where only scripts in which upstream's phase flips may differ.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api import schema
from pykubelet.api.generated.core import ContainerStatus, Pod, PodCondition, PodSpec, PodStatus
from pykubelet.api.pods import CONFIG_SOURCE, PodUid, is_terminal
from pykubelet.api.serializer import Document, from_document, to_document
from pykubelet.api.times import parse_time
from pykubelet.kubelet.pod.pod_manager import PodManager
from pykubelet.kubelet.status import conditions, normalize, sync
from pykubelet.kubelet.status.cache import VersionedStatus
from pykubelet.kubelet.status.normalize import equal_by_node, normalize_status
from pykubelet.kubelet.status.status_manager import StatusManager
from pykubelet.testing.memory_api import Call, MemoryApi
from pykubelet.testing.virtual_time import ManualClock

VECTORS = Path(__file__).parent / "vectors"


def load(name: str, op: str = "") -> list[Any]:
    """The cases of a file, or those of one operation, as pytest parameters."""
    cases = json.loads((VECTORS / name).read_text())["cases"]
    return [pytest.param(case, id=str(case["index"])) for case in cases if not op or case["op"] == op]


def status_of(document: Document) -> PodStatus:
    return from_document(document, PodStatus)


@pytest.mark.parametrize("case", load("status-merge.json"))
def test_merge_is_upstreams(case: Document) -> None:
    old, new = status_of(case["old"]), status_of(case["new"])
    pod = from_document(case["pod"], Pod)
    merged = sync.merge_status(pod, old, new, could_run=case["could_have_running_containers"], now=case["now"])
    assert to_document(merged) == case["merged"]


@pytest.mark.parametrize("case", load("status-normalize.json", "normalizeStatus"))
def test_normalized_status_is_upstreams(case: Document) -> None:
    normalized = normalize_status(from_document(case["pod"], Pod), status_of(case["status"]))
    assert to_document(normalized) == case["out"]


@pytest.mark.parametrize("case", load("status-normalize.json", "isPodStatusByKubeletEqual"))
def test_equality_is_upstreams(case: Document) -> None:
    assert equal_by_node(status_of(case["a"]), status_of(case["b"])) is case["equal"], case["differs_in"]


@pytest.mark.parametrize("case", load("status-normalize.json", "checkContainerStateTransition"))
def test_transition_check_is_upstreams(case: Document) -> None:
    spec = from_document(case["spec"], PodSpec)
    assert normalize.illegal_transition(status_of(case["old"]), status_of(case["new"]), spec) == case["error"]


@pytest.mark.parametrize("case", load("conditions.json"))
def test_conditions_are_upstreams(case: Document) -> None:
    pod, phase = from_document(case["pod"], Pod), case["phase"]
    old = None if case["old_status"] is None else status_of(case["old_status"])
    given = case["container_statuses"]
    statuses = None if given is None else from_document(given, tuple[ContainerStatus, ...])
    known = from_document(case["conditions"] or [], tuple[PodCondition, ...])
    assert _shown(conditions.pod_ready(pod, old, known, statuses, phase)) == case["ready"]
    assert _shown(conditions.containers_ready(pod, old, statuses, phase)) == case["containers_ready"]
    assert _shown(conditions.pod_initialized(pod, old, statuses, phase)) == case["initialized"]


def _shown(condition: PodCondition) -> Document:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "observedGeneration": condition.observed_generation,
    }


class LiveView:
    """Returns what the API holds at this moment, as upstream's GET does."""

    def __init__(self, api: MemoryApi) -> None:
        self._api = api

    def newest(self, _: PodUid, entry: VersionedStatus, /) -> Pod | None:
        document = find(self._api, entry.namespace, entry.name)
        return None if document is None else from_document(document, Pod)

    def learn(self, uid: PodUid, pod: Pod, /) -> None:
        pass

    def forget(self, uid: PodUid, /) -> None:
        pass


class FixedSafety:
    """Gives the same answers for every pod."""

    def __init__(self, *, could_run: bool) -> None:
        self._could_run = could_run

    def could_have_running_containers(self, _: PodUid, /) -> bool:
        return self._could_run

    def pod_resources_are_reclaimed(self, _pod: Pod, _status: PodStatus, /) -> bool:
        return True


def find(api: MemoryApi, namespace: str, name: str) -> Document | None:
    """The document of a pod in the API."""
    for document in api.documents(schema.PODS):
        if (document["metadata"]["namespace"], document["metadata"]["name"]) == (namespace, name):
            return document
    return None


class Replay:
    """One script of status-manager.json, step by step."""

    def __init__(self, case: Document, *, is_live: bool = True) -> None:
        """With `is_live` false the manager knows of the API what its pod manager and the API's answers say."""
        self.case = case
        self.clock = ManualClock(parse_time(case["start"]))
        self.api = MemoryApi(self.clock)
        self.pods = PodManager()
        self.manager = StatusManager(
            client=self.api,
            pods=self.pods,
            safety=FixedSafety(could_run=case["could_have_running_containers"]),
            clock=self.clock,
            view=LiveView(self.api) if is_live else None,
        )
        self.cached: dict[str, Document] = {}
        self.names: list[str] = []
        for given in case["pods"]:
            source = given["pod"]
            self.names.append(source["metadata"]["name"])
            self.pods.add_pod(from_document(source, Pod))
            if given.get("mirror"):
                self.pods.add_pod(from_document(given["mirror"], Pod))
            if given["on_api_server"]:
                self.api.put(schema.PODS, {"kind": "Pod", "apiVersion": "v1", **(given.get("mirror") or source)})

    def pod(self, name: str) -> Pod:
        """The pod manager's current object."""
        pod = self.pods.pod_by_name("ns", name)
        assert pod is not None
        return pod

    async def step(self, step: Document) -> Document:
        """Run one step, and return everything that is visible after it, in the form of the file."""
        before, self.api.calls = dict(self.cached), []
        seen: Document = {"op": step["op"]}
        op = step["op"]
        if op["do"] == "sync_batch":
            seen["synced"] = await self.manager.sync_batch(all=op["all"])
        else:
            getattr(self, f"do_{op['do']}")(op)
        self.cached = {uid: _entry(self.manager._cache.get(uid)) for uid in self.manager._cache}
        seen["cached_versions"] = {uid: entry["version"] for uid, entry in self.cached.items()}
        assert self.manager._sender is not None
        seen["api_versions"] = dict(self.manager._sender._syncer._sent)
        if changed := {uid: entry for uid, entry in self.cached.items() if before.get(uid) != entry}:
            seen["cache_changed"] = changed
        if removed := sorted(before.keys() - self.cached.keys()):
            seen["cache_removed"] = removed
        if calls := _calls_by_pod(self.api.calls):
            seen["api_calls"] = calls
        self.clock.advance(self.case["step_seconds"])
        return seen

    def do_set_pod_status(self, op: Document) -> None:
        self.manager.set_pod_status(self.pod(op["pod"]), status_of(op["status"]))

    def do_set_container_readiness(self, op: Document) -> None:
        uid = PodUid(self.pod(op["pod"]).metadata.uid)
        self.manager.set_container_readiness(uid, op["container_id"], ready=op["ready"])

    def do_set_container_startup(self, op: Document) -> None:
        uid = PodUid(self.pod(op["pod"]).metadata.uid)
        self.manager.set_container_startup(uid, op["container_id"], started=op["started"])

    def do_terminate_pod(self, op: Document) -> None:
        self.manager.terminate_pod(self.pod(op["pod"]))

    def do_remove_orphaned_statuses(self, op: Document) -> None:
        self.manager.remove_orphaned_statuses({PodUid(self.pod(name).metadata.uid) for name in op["keep"] or ()})

    def do_refresh_from_api(self, op: Document) -> None:
        if (live := find(self.api, "ns", op["pod"])) is not None:
            self._show(from_document(live, Pod))

    def do_api_set_deletion(self, op: Document) -> None:
        live = find(self.api, "ns", op["pod"])
        if live is None or "deletionTimestamp" in live["metadata"]:
            return
        known = self.pod(op["pod"])
        known = self.pods.mirror_pod_by_pod(known) or known
        if known.metadata.uid != live["metadata"]["uid"]:
            return
        stamp = op["deletion_timestamp"]
        metadata = {**live["metadata"], "deletionTimestamp": stamp, "deletionGracePeriodSeconds": 30}
        self.api.put(schema.PODS, {**live, "metadata": metadata})
        marked = replace(known.metadata, deletion_timestamp=stamp, deletion_grace_period_seconds=30)
        self.pods.update_pod(replace(known, metadata=marked))

    def do_api_add_condition(self, op: Document) -> None:
        live = find(self.api, "ns", op["pod"])
        if live is None:
            return
        status = live.get("status", {})
        known = status.get("conditions") or []
        if all(one["type"] != op["condition"]["type"] for one in known):
            changed = {**status, "conditions": [*known, op["condition"]]}
            self.api.put(schema.PODS, {**live, "status": changed})

    def do_api_recreate(self, op: Document) -> None:
        live = find(self.api, "ns", op["pod"])
        if live is None:
            return
        gone = ("deletionTimestamp", "deletionGracePeriodSeconds")
        metadata = {key: value for key, value in live["metadata"].items() if key not in gone}
        new = {**live, "metadata": {**metadata, "uid": op["new_uid"]}, "status": {"phase": "Pending"}}
        self.api.put(schema.PODS, new)

    def _show(self, pod: Pod) -> None:
        """Update the pod manager with the API's copy; another pod of the same name replaces the old one."""
        known = self.pod(pod.metadata.name)
        static = known.metadata.annotations.get(CONFIG_SOURCE) != "api"
        old = self.pods.mirror_pod_by_pod(known) if static else known
        if old is not None and old.metadata.uid != pod.metadata.uid:
            self.pods.delete_pod(old)
        self.pods.update_pod(pod)


def _entry(entry: VersionedStatus | None) -> Document:
    assert entry is not None
    return {"version": entry.version, "finished": entry.finished, "status": to_document(entry.status)}


def _calls_by_pod(calls: list[Call]) -> Document:
    """The calls except GETs, in the form of the file."""
    shown: dict[str, list[Document]] = {}
    for call in calls:
        one: Document = {"verb": call.verb, "resource": call.resource}
        if call.verb == "patch":
            one |= {"patch": call.body, "subresource": call.subresource}
        if call.verb == "delete":
            one["options"] = {key: call.body[key] for key in call.body if key not in ("apiVersion", "kind")}
        if call.verb != "get":
            shown.setdefault(call.name, []).append(one)
    return shown


def _expected(step: Document) -> Document:
    """A recorded step without the parts that the departures drop."""
    calls: dict[str, list[Document]] = {}
    for name, recorded in step.get("api_calls", {}).items():
        kept = [call for call in recorded if call["verb"] != "get"]
        if kept:
            calls[name] = [{key: call[key] for key in call if key != "patch_type"} for call in kept]
    expected = {key: value for key, value in step.items() if key != "api_calls"}
    return {**expected, "api_calls": calls} if calls else expected


@contextmanager
def upstreams_rule() -> Iterator[list[str]]:
    """Let phases flip, as upstream does, and collect the flips."""
    found: list[str] = []
    latch = normalize.latch_phase

    def let_it_flip(old: PodStatus, new: PodStatus) -> PodStatus:
        if latch(old, new) is not new:
            found.append(f"{old.phase} to {new.phase}")
        return new

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(normalize, "latch_phase", let_it_flip)
        patched.setattr(sync, "latch_phase", let_it_flip)
        yield found


async def first_flip(case: Document) -> int:
    """The first step in which upstream takes a pod out of a terminal phase; all steps must equal upstream's."""
    first = len(case["steps"])
    replay = Replay(case)
    with upstreams_rule() as flips:
        for index, step in enumerate(case["steps"]):
            assert await replay.step(step) == _expected(step), f"step {index}: {step['op']['do']}"
            if flips:
                first = min(first, index)
    _check_end(replay)
    return first


@pytest.mark.parametrize("case", load("status-manager.json"))
async def test_script_is_upstreams_but_for_the_latch(case: Document) -> None:
    flip = await first_flip(case)
    replay = Replay(case)
    ended: dict[str, str] = {}
    for index, step in enumerate(case["steps"]):
        seen = await replay.step(step)
        assert index >= flip or seen == _expected(step), f"step {index}: {step['op']['do']}"
        for uid, entry in replay.cached.items():
            phase = entry["status"].get("phase", "")
            assert phase == ended.get(uid, phase)
            if is_terminal(phase):
                ended[uid] = phase
    if flip == len(case["steps"]):
        _check_end(replay)


_NOT_IN_THE_API = "the pod is not in the API: a PATCH finds that out, as upstream's GET does"
_FORGOTTEN = "the status was dropped, and with it the API's last answer; the pod manager's object is older"
_UNSEEN = "the object in the API has changed, and no watch has delivered that"
DIFFERENT_KNOWLEDGE = {
    8: (4, _NOT_IN_THE_API),
    10: (7, _FORGOTTEN),
    14: (5, _UNSEEN),
    20: (9, _UNSEEN),
    28: (10, _NOT_IN_THE_API),
    34: (6, _UNSEEN),
    36: (9, _UNSEEN),
    48: (6, _UNSEEN),
    76: (9, _UNSEEN),
}
"""The first step, by script, that differs because a watch has delivered less than upstream's GET would, and why."""


@pytest.mark.parametrize("case", load("status-manager.json"))
async def test_script_is_upstreams_with_the_objects_that_the_node_knows(case: Document) -> None:
    """The manager's own view of the API leads to the same steps, without the GETs."""
    replay = Replay(case, is_live=False)
    different, _ = DIFFERENT_KNOWLEDGE.get(case["index"], (len(case["steps"]), ""))
    with upstreams_rule():
        for index, step in enumerate(case["steps"][: different + 1]):
            assert (await replay.step(step) == _expected(step)) == (index < different), f"step {index}"
    if different == len(case["steps"]):
        _check_end(replay)


def _check_end(replay: Replay) -> None:
    for name, expected in replay.case["api_status_at_end"].items():
        live = find(replay.api, "ns", name)
        # MemoryApi keeps documents as they were sent; a typed server writes null times.
        assert (None if live is None else to_document(status_of(live["status"]))) == expected
