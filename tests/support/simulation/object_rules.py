"""What must hold for each object from one version to the next: terminal stays terminal, exit codes stay and are true,
restarts are counted up, and no condition moves without a cause.

Every rule takes a committed change: the object before and after it.
"""

from collections.abc import Iterator
from typing import Any

from pykubelet.api.pods import CONFIG_MIRROR
from pykubelet.api.serializer import Document
from pykubelet.apiserver.storage.interfaces import StoreKey
from simulation.invariants import ServerChecks
from simulation.machine import ContainerRecord, Containers

TERMINAL = ("Succeeded", "Failed")
READINESS = ("Ready", "ContainersReady")


def watch_objects(checks: ServerChecks, containers: Containers) -> None:
    """Apply all rules to what the server commits and what the machines run."""
    rules = ObjectRules(checks, containers)
    checks.rules += [rules.pods_stay_terminal, rules.exits_are_true, rules.pods_keep_ready, rules.pods_go_with_exits]
    checks.rules += [rules.conditions_keep_their_time, rules.jobs_stay_finished, rules.generations_rise]
    containers.awaits_exit = rules.awaits_exit


class ObjectRules:
    """The rules, with what they compare objects to."""

    def __init__(self, checks: ServerChecks, containers: Containers) -> None:
        self._checks, self._containers = checks, containers

    def awaits_exit(self, record: ContainerRecord) -> bool:
        """Whether the API server has the pod of a container, which was not deleted by force."""
        found = self._checks.truth.state.get(StoreKey("pods", *record.pod))
        return found is not None and found[1]["metadata"]["uid"] == record.uid

    def pods_stay_terminal(self, key: StoreKey, before: Document | None, after: Document | None) -> None:
        if key.collection == "pods" and after is not None and after["spec"].get("terminationGracePeriodSeconds") == 0:
            # Its deletion is always at once.
            self._checks.forced.add((key.namespace, key.name))
        if key.collection != "pods" or before is None or after is None:
            return
        if before["metadata"]["uid"] != after["metadata"]["uid"]:
            self._violated(key, "changes its uid without a deletion")
        phase = before.get("status", {}).get("phase")
        if phase in TERMINAL and after.get("status", {}).get("phase") != phase:
            self._violated(key, f"was {phase} and is {after.get('status', {}).get('phase')}")
        node = before["spec"].get("nodeName")
        if node and after["spec"].get("nodeName") != node:
            self._violated(key, f"moves from {node}")

    def exits_are_true(self, key: StoreKey, before: Document | None, after: Document | None) -> None:
        if key.collection != "pods" or after is None:
            return
        old = {status["name"]: status for status in _container_statuses(before)} if self._is_same(before, after) else {}
        for status in _container_statuses(after):
            for shown in filter(None, (_ended(status, "state"), _ended(status, "lastState"))):
                self._check_exit(key, shown)
            known = old.get(status["name"])
            if known is None:
                continue
            if known.get("restartCount", 0) > status.get("restartCount", 0):
                self._violated(key, f"restart count falls from {known.get('restartCount')} to {status['restartCount']}")
            ended, now = _ended(known, "state"), _ended(status, "state")
            if ended is not None and now is not None and ended.get("containerID") == now.get("containerID"):
                if ended["exitCode"] != now["exitCode"]:
                    self._violated(key, f"exit code {ended['exitCode']} becomes {now['exitCode']}")
            elif ended is not None and now is None and ended.get("containerID"):
                running = (status.get("state") or {}).get("running") is not None
                if running and status.get("containerID") == ended["containerID"]:
                    self._violated(key, f"container {status['name']} ended and runs again")

    def _is_same(self, before: Document | None, after: Document) -> bool:
        """Whether both show the same pod: a mirror pod may show the end of a later static pod whose file is gone."""
        if before is None or CONFIG_MIRROR not in _annotations(after):
            return True
        return self._pods_shown(before) == self._pods_shown(after) != set()

    def _pods_shown(self, pod: Document) -> set[str]:
        ids = (id.removeprefix("sim://") for id in _container_ids(pod))
        return {self._containers.all[id].uid for id in ids if id in self._containers.all}

    def _check_exit(self, key: StoreKey, ended: Document) -> None:
        id = str(ended.get("containerID", "")).removeprefix("sim://")
        record = self._containers.all.get(id)
        if record is None:
            if id:
                self._violated(key, f"shows the exit of an unknown container {id}")
            return
        self._containers.reported[id] = ended["exitCode"]
        if record.is_running or (record.exit_code != ended["exitCode"] and record.exit_code is not None):
            self._violated(key, f"shows exit code {ended['exitCode']}, the container has {record.exit_code}")

    def pods_keep_ready(self, key: StoreKey, before: Document | None, after: Document | None) -> None:
        """A Ready pod becomes unready only for a cause."""
        if key.collection != "pods" or before is None or after is None or CONFIG_MIRROR in _annotations(after):
            return
        if _condition(before, "Ready") != "True" or _condition(after, "Ready") != "False":
            return
        if after["metadata"].get("deletionTimestamp") or _has_probes(after) or not self._all_run(after):
            return
        node = self._checks.truth.state.get(StoreKey("nodes", "", after["spec"].get("nodeName", "")))
        if node is not None and _condition(node[1], "Ready") == "True":
            self._violated(key, f"becomes unready without cause: {_messages(after)}")

    def _all_run(self, pod: Document) -> bool:
        """Whether all containers have run since the last status."""
        for status in pod["status"].get("containerStatuses", ()):
            record = self._containers.all.get(str(status.get("containerID", "")).removeprefix("sim://"))
            if record is None or not record.is_running:
                return False
        return True

    def pods_go_with_exits(self, key: StoreKey, before: Document | None, after: Document | None) -> None:
        """When its node removes a pod, the last status has the exit codes of its containers."""
        if key.collection != "pods" or after is not None or before is None:
            return
        if (key.namespace, key.name) in self._checks.forced or CONFIG_MIRROR in _annotations(before):
            return
        shown = {
            (ended or {}).get("containerID"): ended
            for status in _container_statuses(before)
            for ended in (_ended(status, "state"), _ended(status, "lastState"))
        }
        newest: dict[str, ContainerRecord] = {}
        for record in self._containers.of_pod((key.namespace, key.name)):
            if record.uid == before["metadata"]["uid"]:
                newest[record.name] = record
        for record in newest.values():
            if record.is_running:
                self._violated(key, f"is removed while {record.name} runs")
            elif record.has_run and f"sim://{record.id}" not in shown:
                self._violated(key, f"is removed without exit code {record.exit_code} of {record.name}")

    def conditions_keep_their_time(self, key: StoreKey, before: Document | None, after: Document | None) -> None:
        if before is None or after is None or not self._is_same(before, after):
            return
        old = {one["type"]: one for one in (before.get("status") or {}).get("conditions") or ()}
        for one in (after.get("status") or {}).get("conditions") or ():
            known = old.get(one["type"])
            # The sandbox may have come and gone in between, and the scheduler may not have seen its own condition yet.
            kind = (one["type"], one["status"])
            if known is None or known["status"] != one["status"] or kind == ("PodScheduled", "False"):
                continue
            if one["type"] == "PodReadyToStartContainers":
                continue
            if one["type"] in READINESS and _containers(before) != _containers(after):
                # It was False in between, in a status that was never sent.
                continue
            if known.get("lastTransitionTime") != one.get("lastTransitionTime"):
                self._violated(key, f"condition {one['type']} moves from {known} to {one}")

    def jobs_stay_finished(self, key: StoreKey, before: Document | None, after: Document | None) -> None:
        if key.collection != "jobs.batch" or before is None or after is None:
            return
        for kind in ("Complete", "Failed"):
            if _condition(before, kind) == "True" and _condition(after, kind) != "True":
                self._violated(key, f"was {kind}")
        old, new = before.get("status") or {}, after.get("status") or {}
        if old.get("succeeded", 0) > new.get("succeeded", 0):
            self._violated(key, f"succeeded falls from {old.get('succeeded')} to {new.get('succeeded')}")
        if old.get("failed", 0) > new.get("failed", 0):
            self._violated(key, f"failed falls from {old.get('failed')} to {new.get('failed')}")

    def generations_rise(self, key: StoreKey, before: Document | None, after: Document | None) -> None:
        if before is None or after is None:
            return
        old, new = (before.get("status") or {}), (after.get("status") or {})
        if old.get("observedGeneration", 0) > new.get("observedGeneration", 0):
            self._violated(key, f"observedGeneration falls to {new.get('observedGeneration', 0)}")
        if new.get("observedGeneration", 0) > after["metadata"].get("generation", 0):
            self._violated(key, "observedGeneration is ahead of the generation")

    def _violated(self, key: StoreKey, what: str) -> None:
        self._checks.trace.violated(f"{'/'.join(part for part in key if part)} {what}")


def _container_statuses(pod: Document | None) -> Iterator[Document]:
    status = (pod or {}).get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _container_ids(pod: Document) -> list[str]:
    return [str(status.get("containerID", "")) for status in _container_statuses(pod)]


def _containers(pod: Document) -> list[tuple[str, bool]]:
    """The containers of a pod, and whether each runs."""
    return [(str(one.get("containerID", "")), "running" in one["state"]) for one in _container_statuses(pod)]


def _ended(status: Document, field: str) -> Document | None:
    ended: Document | None = (status.get(field) or {}).get("terminated")
    return ended


def _condition(document: Document, kind: str) -> str:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")


def _messages(document: Document) -> list[Any]:
    return [one for one in document["status"]["conditions"] if one["status"] == "False"]


def _annotations(document: Document) -> Document:
    annotations: Document = document["metadata"].get("annotations") or {}
    return annotations


def _has_probes(pod: Document) -> bool:
    return any("readinessProbe" in one or "livenessProbe" in one for one in pod["spec"]["containers"])
