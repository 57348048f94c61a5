"""Pods for the kill -9 tests: the expected end of each, and what is wrong with it."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kill_lab import FOR_EVER, HASH, MIRROR, KillLab

FIRST_FAILS = '[ -e "$LEDGER.failed" ] || { : >"$LEDGER.failed"; exit 3; }; '
SLOW_STOP = "trap 'sleep 0.2; exit 0' TERM; sleep 100000 & wait"
# A machine with other things to do may take its time.
PROBE = {"exec": {"command": ["true"]}, "periodSeconds": 1, "timeoutSeconds": 10}


@dataclass
class Wish:
    """A pod and its expected final state."""

    document: dict[str, Any]
    starts: dict[str, int] = field(default_factory=lambda: {"main": 1})
    """How often each container starts, no more and no less."""
    exit_codes: dict[str, int] = field(default_factory=dict)
    """Of the containers that end for good."""
    restarts: dict[str, int] = field(default_factory=dict)
    """The restartCount of those that have another one than their starts make."""
    is_static: bool = False
    is_deleted: bool = False

    @property
    def name(self) -> str:
        return str(self.document["metadata"]["name"])

    @property
    def api_name(self) -> str:
        return f"{self.name}-node-1" if self.is_static else self.name

    def restart_count(self, container: str) -> int:
        return self.restarts.get(container, self.starts[container] - 1)

    @property
    def phase(self) -> str:
        codes = [self.exit_codes.get(one["name"]) for one in self.document["spec"]["containers"]]
        if None in codes:
            return "Running"
        return "Failed" if any(codes) else "Succeeded"


def job(lab: KillLab, name: str, code: int, seconds: float) -> Wish:
    """A pod that exits with a code after a time and is not restarted."""
    made = lab.container(name, f"sleep {seconds:.2f}; exit {code}")
    return Wish(lab.pod(name, made, restartPolicy="Never"), exit_codes={"main": code})


def endless(lab: KillLab, name: str, *, script: str = FOR_EVER, **container: Any) -> Wish:
    """A pod that runs until it is deleted."""
    return Wish(lab.pod(name, lab.container(name, script, **container)))


def second_try(lab: KillLab, name: str, policy: str) -> Wish:
    """A pod that fails once; then it succeeds with policy OnFailure, and otherwise keeps running."""
    made = lab.container(name, FIRST_FAILS + ("exit 0" if policy == "OnFailure" else FOR_EVER))
    codes = {"main": 0} if policy == "OnFailure" else {}
    return Wish(lab.pod(name, made, restartPolicy=policy), starts={"main": 2}, exit_codes=codes)


def crowd(lab: KillLab, name: str) -> Wish:
    """A pod with two init containers, a sidecar, and two containers that share a volume in memory."""
    init = [lab.container(name, "sleep 0.1; exit 0", f"init-{number}") for number in range(2)]
    sidecar = lab.container(name, FOR_EVER, "sidecar", restartPolicy="Always")
    mount = {"name": "memory", "mountPath": "/mnt"}
    regular = [lab.container(name, FOR_EVER, one, readinessProbe=PROBE, volumeMounts=[mount]) for one in ("one", "two")]
    # Ordinary users cannot mount, so their volume is a folder on disk.
    memory = {"name": "memory", "emptyDir": {"medium": "Memory"} if os.geteuid() == 0 else {}}
    names = ("init-0", "init-1", "sidecar", "one", "two")
    return Wish(
        lab.pod(name, *regular, initContainers=[init[0], sidecar, init[1]], volumes=[memory]),
        starts=dict.fromkeys(names, 1),
        exit_codes={"init-0": 0, "init-1": 0},
    )


def mapped(lab: KillLab, name: str, config_map: str) -> Wish:
    """A pod that needs a config map, in its environment and as a file."""
    value = {"name": "VALUE", "valueFrom": {"configMapKeyRef": {"name": config_map, "key": "key"}}}
    mount = {"name": "map", "mountPath": "/etc/the-map"}
    script = f'[ "$VALUE $(cat /etc/the-map/key)" = "value value" ] || exit 5; {FOR_EVER}'
    made = lab.container(name, script, env=[value], volumeMounts=[mount])
    return Wish(lab.pod(name, made, volumes=[{"name": "map", "configMap": {"name": config_map}}]))


def container_statuses(pod: Any) -> tuple[Any, ...]:
    """The statuses of all containers of a pod, init containers first."""
    return (*pod["status"].get("initContainerStatuses", ()), *pod["status"].get("containerStatuses", ()))


def conditions(shown: Any) -> dict[str, tuple[str, str]]:
    """The status and the last transition time of each condition of a pod or node."""
    listed = shown["status"].get("conditions", ())
    return {one["type"]: (one["status"], one["lastTransitionTime"]) for one in listed}


def wrong_now(lab: KillLab, wishes: list[Wish], shown: dict[str, Any]) -> list[str]:
    """How pods, processes and folders differ from what is expected in the end."""
    wanted = {wish.api_name: wish for wish in wishes if not wish.is_deleted}
    found = [f"{name}: nobody wants it" for name in shown.keys() - wanted.keys()]
    for wish in wishes:
        if wish.is_deleted:
            found += [f"{wish.name}: deleted, yet {one} runs" for one in lab.starts(wish.name) if one.is_alive]
        elif wish.api_name not in shown:
            found.append(f"{wish.name}: missing")
        else:
            found += [f"{wish.name}: {text}" for text in _wrong(lab, wish, shown[wish.api_name])]
    kept = [wish for wish in wishes if not wish.is_deleted]
    return found + _wrong_processes(lab, kept) + _wrong_folders(lab, kept)


def _wrong(lab: KillLab, wish: Wish, shown: Any) -> Iterator[str]:
    starts = Counter(one.container for one in lab.starts(wish.name))
    wanted = Counter(wish.starts)
    if not wish.is_static and (wanted - starts or (starts - wanted).total() > lab.given_up_starts()):
        yield f"starts {dict(starts)}, not {wish.starts}"
    status = shown["status"]
    if status["phase"] != wish.phase:
        yield f"phase {status['phase']}, not {wish.phase}"
    listed = container_statuses(shown)
    if {one["name"] for one in listed} != set(wish.starts):
        yield f"statuses {listed}"
    for one in listed:
        code = wish.exit_codes.get(one["name"])
        if (
            "running" not in one["state"]
            if code is None
            else one["state"].get("terminated", {}).get("exitCode") != code
        ):
            yield f"{one['name']} is {one['state']}"
        # A start that was undone may have failed as scripted, but is not counted as a restart.
        counted = wish.restart_count(one["name"]) - one["restartCount"]
        if not 0 <= counted <= lab.given_up_starts():
            yield f"{one['name']} has restartCount {one['restartCount']}"
    is_ready = conditions(shown).get("Ready", ("", ""))[0]
    if is_ready != ("True" if wish.phase == "Running" else "False"):
        yield f"ready is {is_ready}"
    if wish.is_static:
        yield from _wrong_mirror(lab, wish, shown)


def _wrong_mirror(lab: KillLab, wish: Wish, shown: Any) -> Iterator[str]:
    notes, last = shown["metadata"]["annotations"], lab.starts(wish.name)[-1:]
    if [one.is_alive for one in last] != [True]:
        yield "does not run"
    # The ledger has the UID of the static pod that runs; the mirror's annotations name the one that it shows.
    elif {notes.get(MIRROR), notes.get(HASH)} != {last[0].pod_uid}:
        yield f"mirror of {notes}, but {last[0].pod_uid} runs"
    version = wish.document["metadata"].get("labels", {})
    if shown["metadata"].get("labels", {}) != version:
        yield f"mirror has labels {shown['metadata'].get('labels')}, not {version}"


def _wrong_processes(lab: KillLab, wishes: list[Wish]) -> list[str]:
    """Unexpected and missing processes, and what is wrong with supervisors and spawners."""
    expected: dict[int, str] = {}
    for wish in wishes:
        running = wish.starts.keys() - wish.exit_codes.keys()
        last = {one.container: one.pid for one in lab.starts(wish.name)}
        expected |= {pid: wish.name for name, pid in last.items() if name in running}
    sessions = lab.processes()
    found = [f"process {pid} of session {session}" for pid, session in sessions.items() if session not in expected]
    found += [f"{name}: process {pid} is missing" for pid, name in expected.items() if pid not in sessions]
    return found + lab.wrong_helpers(expected)


def _wrong_folders(lab: KillLab, wishes: list[Wish]) -> list[str]:
    """Folders and mounts of pods that no longer exist."""
    uids = {lab.starts(wish.name)[-1].pod_uid for wish in wishes if lab.starts(wish.name)}
    left = [
        path for path in (*lab.pod_folders(), *lab.mounts()) if path.relative_to(lab.root / "pods").parts[0] not in uids
    ]
    return [f"{path} is left" for path in left]


def moves(lab: KillLab, wish: Wish) -> Iterator[str]:
    """The first change of a pod after it had reached its expected state."""
    settled = None
    for version in lab.versions.get(wish.api_name, ()):
        if version["metadata"].get("deletionTimestamp"):
            return
        now = Shown.of(version)
        if settled is None and now.has_come_to(wish):
            settled = now
        if settled is not None and now != settled:
            yield f"{wish.name}: {settled} became {now}"
            return


@dataclass(frozen=True)
class Shown:
    """The parts of a pod's status that may not change after it has reached its expected state."""

    phase: str
    conditions: dict[str, tuple[str, str]]
    containers: dict[str, tuple[str, int, Any]]

    @classmethod
    def of(cls, pod: Any) -> "Shown":
        listed = container_statuses(pod)
        return cls(
            pod["status"]["phase"],
            conditions(pod),
            {one["name"]: (one.get("containerID", ""), one["restartCount"], one["state"]) for one in listed},
        )

    def has_come_to(self, wish: Wish) -> bool:
        restarts = {name: count for name, (_, count, _) in self.containers.items()}
        is_ready = self.conditions.get("Ready", ("", ""))[0] == "True"
        has_all = restarts == {name: wish.restart_count(name) for name in wish.starts}
        return has_all and self.phase == wish.phase and is_ready == (wish.phase == "Running")


def untold_ends(lab: KillLab, wish: Wish) -> list[str]:
    """Containers of a deleted pod that were started, but are not terminated in its last version."""
    ended = {one["name"] for one in container_statuses(lab.versions[wish.api_name][-1]) if "terminated" in one["state"]}
    return [f"{wish.name}: {one.container}" for one in lab.starts(wish.name) if one.container not in ended]


def ids_seen(lab: KillLab, wish: Wish) -> dict[str, int]:
    """How many container ids the API has shown for each container name of a pod, in `containerID` or `lastState`."""
    found = set()
    for version in lab.versions[wish.api_name]:
        for one in container_statuses(version):
            last = one.get("lastState", {}).get("terminated", {})
            found |= {(one["name"], id) for id in (one.get("containerID"), last.get("containerID")) if id}
    return Counter(name for name, _ in found)
