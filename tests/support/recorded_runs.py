"""Replays, on any node, pod lives that were recorded from a Go kubelet, and compares the results.

A recording has objects to create, actions with their times, every state that a watch saw, the kubelet's events and the
last full object. Ids, times and addresses are masked there, and here for the comparison.
"""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.api import schema
from pykubelet.api.scheme import PODS, as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.interface import Client

FOLDER = Path(__file__).parents[1] / "upstream/kubelet_runs"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
NODE = "n1"
SETTLED_SECONDS = 2.0
"""The age of a node from which on its first probes come at once, as they did on the recorded one, and not at random."""
PATIENCE_SECONDS = 60.0
EVENTS_SECONDS = 30.0
"""So long after the last state the recorded events may take to come: some are of what happened after it."""
LATER_SECONDS = 2.0
"""So long after the last state and event nothing more may come."""
ENDLESS = {"crash-loop", "init-fails-always"}
"""Lives that go on after the end of the recording: their containers are restarted again and again."""
EARLIER = {"static": 2}
"""States shown here that the kubelet was too slow to show: a mirror whose containers are being created."""
UNSEEN = {"crash-loop": 2, "init-fails-always": 2, "retry": 2, "sidecar": 1}
"""States that may go unseen: containers have ended, and what follows from that is known here in the same moment."""
TOLD_ONCE = {"DeadlineExceeded"}
"""Events that the kubelet repeats whenever it looks; here they are told once for each time it happens."""
POD_DOCUMENTS = as_documents(schema.PODS)
_SHOWN_METADATA = {
    "name",
    "generation",
    "annotations",
    "labels",
    "ownerReferences",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
}
_FULL_METADATA = _SHOWN_METADATA | {"namespace", "uid", "creationTimestamp"}
# What the admission of the recorded cluster has added to every pod.
_ADMITTED = {"serviceAccountName": "default", "automountServiceAccountToken": False}
_ADDRESS_MASKS = {"hostIP": "<host-ip>", "hostIPs": "<host-ip>", "podIP": "<pod-ip>", "podIPs": "<pod-ip>"}
_MASKS_BY_KEY = {
    "uid": "<uid>",
    "namespace": "<ns>",
    "kubernetes.io/config.hash": "<hash>",
    "kubernetes.io/config.mirror": "<hash>",
}
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b(?!https?:)\w+://[-\w]+"), "containerd://<id>"),
    (re.compile(r"sha256:[0-9a-f]{64}"), "sha256:<digest>"),
    (re.compile(r"_[-a-z0-9]+\([-0-9a-f]{32,36}\)"), "_<ns>(<uid>)"),
)


def load(name: str) -> Document:
    """Load the recording with this name."""
    recording: Document = json.loads((FOLDER / f"{name}.json").read_text())
    return recording


def pods_in(recording: Document) -> list[Document]:
    """The pods of a recording, from its objects or from its manifests."""
    written = [action["with"] for action in recording["actions"] if action["do"] == "write"]
    return [*recording["objects"], *written]


def masked(value: Any, key: str = "") -> Any:
    """A part of an object, masked as in a recording."""
    if isinstance(value, dict):
        # The addresses in lists are masked as their list is.
        return {name: masked(one, key if name == "ip" else name) for name, one in value.items()}
    if isinstance(value, list):
        return [masked(one, key) for one in value]
    if not isinstance(value, str):
        return value
    if key in _ADDRESS_MASKS:
        return _ADDRESS_MASKS[key] if _is_address(value) else value
    if key in _MASKS_BY_KEY:
        return _MASKS_BY_KEY[key] if value else value
    for pattern, mask in _MASKS:
        value = pattern.sub(mask, value)
    return value


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _chosen(metadata: Document, names: Iterable[str]) -> Document:
    return {name: metadata[name] for name in names if name in metadata}


@dataclass(slots=True)
class Life:
    """The states of a pod that a watch has seen on our side, masked, and the events about it."""

    states: list[Document] = field(default_factory=list)
    objects: list[Document] = field(default_factory=list)
    events: list[Document] = field(default_factory=list)

    async def watch(self, client: Client, namespace: str, begun: asyncio.Event) -> None:
        """Set `begun`, then record every state until cancelled."""
        begin = (await client.list(POD_DOCUMENTS, namespace=namespace)).resource_version
        begun.set()
        async with client.watch(POD_DOCUMENTS, namespace=namespace, resource_version=begin) as seen:
            async for one in seen:
                if one.object is None:
                    continue
                metadata, status = one.object["metadata"], one.object["status"]
                state = {"type": one.type, "metadata": _chosen(metadata, _SHOWN_METADATA), "status": status}
                self.states.append(masked(state))
                full = {
                    name: part for name, part in one.object.items() if name in {"kind", "apiVersion", "spec", "status"}
                }
                self.objects.append(masked({**full, "metadata": _chosen(metadata, _FULL_METADATA)}))

    def positions(self, recording: Document) -> list[int | None]:
        """The index of each recorded state among ours, in order; None for a state that was not seen."""
        found: list[int | None] = []
        start = 0
        earlier: list[Document] = []
        for shown in recording["pod_as_seen_by_a_watch"]:
            wanted = {name: shown[name] for name in ("type", "metadata", "status")}
            either = (wanted, with_last_run(wanted, earlier))
            at = next((n for n in range(start, len(self.states)) if self.states[n] in either), None)
            found.append(at)
            earlier.append(wanted)
            start = start if at is None else at + 1
        return found


def with_last_run(shown: Document, earlier: Iterable[Document]) -> Document:
    """An object that still shows in `lastState` how a container ended that the recorded kubelet had removed by then.

    Here the container goes only after the API has confirmed its end; at the end of a pod that may be too late.
    """
    before = {
        (one["name"], one["restartCount"]): one["lastState"]
        for state in earlier
        for one in state["status"].get("containerStatuses", ())
        if one["lastState"]
    }
    known = [
        {**one, "lastState": one["lastState"] or before.get((one["name"], one["restartCount"]), {})}
        for one in shown["status"].get("containerStatuses", ())
    ]
    return {**shown, "status": {**shown["status"], "containerStatuses": known}} if known else shown


class Replay:
    """Repeats the recorded actions in one namespace of an API server and in a folder of manifests."""

    def __init__(
        self, recording: Document, *, client: Client, manifests: Path, clock: Clock, namespace: str = "default"
    ) -> None:
        self._recording, self._client, self._clock, self._namespace = recording, client, clock, namespace
        self._manifest = manifests / f"{namespace}.json"
        self._started = 0.0

    async def run(self) -> Life:
        """Repeat the actions and return what was seen, up to the last recorded state or a timeout."""
        life = Life()
        async with asyncio.TaskGroup() as group:
            begun = asyncio.Event()
            watch = group.create_task(life.watch(self._client, self._namespace, begun))
            await begun.wait()
            self._started = self._clock.monotonic()
            for one in self._recording["objects"]:
                await self._client.create(POD_DOCUMENTS, _admitted(one), namespace=self._namespace)
            for action in self._recording["actions"]:
                await asyncio.sleep(max(action["at_seconds"] - (self._clock.monotonic() - self._started), 0))
                await self._act(action["do"], action["with"])
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while life.positions(self._recording)[-1] is None:
                        await asyncio.sleep(0.1)
                async with asyncio.timeout(EVENTS_SECONDS):
                    while told(events := await self._events()) != expected_events(self._recording, events):
                        await asyncio.sleep(0.5)
            await asyncio.sleep(LATER_SECONDS)
            watch.cancel()
        life.events = await self._events()
        return life

    async def _act(self, verb: str, what: Any) -> None:
        client, manifest, namespace = self._client, self._manifest, self._namespace
        match verb:
            case "delete":
                await client.delete(PODS, what, namespace=namespace)
            case "patch":
                await client.patch(PODS, what[0], what[1], namespace=namespace)
            case "patch-status":
                await client.patch(PODS, what[0], what[1], namespace=namespace, subresource="status")
            case "create":
                await client.create(as_documents(schema.CONFIG_MAPS), what, namespace=namespace)
            case "write":
                manifest.write_text(json.dumps(what).replace("${ns}", namespace))
            case "unlink":
                manifest.unlink()

    async def _events(self) -> list[Document]:
        listed = (await self._client.list(as_documents(schema.EVENTS), namespace=self._namespace)).items
        return [
            {
                "type": one["type"],
                "reason": one["reason"],
                "message": masked(one.get("message", "")),
                "count": one["count"],
                "object": one["involvedObject"].get("fieldPath", ""),
            }
            for one in listed
            if one["involvedObject"]["kind"] == "Pod"
        ]


def _admitted(pod: Document) -> Document:
    return {**pod, "spec": {**_ADMITTED, **pod["spec"]}}


def told(events: Iterable[Document]) -> list[tuple[str, ...]]:
    """The fields of events that users read, sorted."""
    return sorted(
        tuple(str(event[name]) for name in ("object", "type", "reason", "message", "count")) for event in events
    )


def expected_events(recording: Document, events: Iterable[Document]) -> list[tuple[str, ...]]:
    """The recorded events in the form of `told`, with counts taken from `events` where those may differ.

    An unready container is probed outside its period too, and a container that cannot be started is tried again; so
    the counts of these failures may differ by one.
    """
    counts = {(event["reason"], event["message"]): event["count"] for event in events}
    recorded = recording["kubelet_events"]
    is_tried_again = any(event["message"].startswith("Error: ") and event["count"] > 1 for event in recorded)
    expected = []
    for event in recorded:
        count = 1 if event["reason"] in TOLD_ONCE else event["count"]
        is_of_looks = event["message"].startswith("Readiness probe failed") or (is_tried_again and count > 1)
        found = counts.get((event["reason"], event["message"]), count)
        expected.append({**event, "count": found if is_of_looks and abs(found - count) <= 1 else count})
    return told(expected)


def differences(name: str, life: Life, recording: Document, *, unseen: int = 0) -> list[str]:
    """How a life differs from its recording: in its states, its last full object, and its events.

    In real time up to `unseen` states may be missing: two may follow each other so fast that only the second is sent.
    """
    shown = recording["pod_as_seen_by_a_watch"]
    positions = life.positions(recording)
    missing = [state for state, at in zip(shown, positions, strict=True) if at is None]
    last = positions[-1]
    if last is None:
        return [f"it never came to {shown[-1]}, but to {life.states[-1]}"]
    more = [state for n, state in enumerate(life.states[:last]) if n not in positions and not _is_quick(state, shown)]
    found = [f"not shown: {state}" for state in missing if '"terminated"' not in json.dumps(state)]
    if len(missing) > max(UNSEEN.get(name, 0), unseen):
        found += [f"not shown, as others: {state}" for state in missing]
    found += [f"shown, but not recorded: {state}" for state in more[EARLIER.get(name, 0) :]]
    later = life.states[last + 1 :] if name not in ENDLESS else []
    found += [f"shown after the last recorded state: {state}" for state in later]
    end = recording["last_full_object"]
    if life.objects[last] not in (end, with_last_run(end, shown)):
        found.append(f"its end was {life.objects[last]}, not {recording['last_full_object']}")
    events, expected = told(life.events), expected_events(recording, life.events)
    found += [f"not told: {event}" for event in (Counter(expected) - Counter(events)).elements()]
    return found + [f"told, but not recorded: {event}" for event in (Counter(events) - Counter(expected)).elements()]


def _is_quick(state: Document, shown: list[Document]) -> bool:
    """Whether a state shows a running container that the recorded kubelet, relisting once a second, only saw ended.

    It is true of the states after that, too: the pod is Running then, where the recorded one is still Pending.
    """
    found = {seen for one in shown for seen in _runs(one)}
    quick = {(run, "running") for run, kind in found if kind == "terminated"} - found
    unlike = {"phase", "at_seconds"}
    recorded = [_without(one, unlike) for one in shown if one["status"]["phase"] == "Pending"]
    was_running = bool(quick) and state["status"]["phase"] == "Running" and _without(state, unlike) in recorded
    return was_running or not quick.isdisjoint(_runs(state))


def _without(state: Document, names: set[str]) -> Document:
    """A state without some of its fields."""
    kept = {name: value for name, value in state.items() if name not in names}
    return {**kept, "status": {name: value for name, value in state["status"].items() if name not in names}}


def _runs(state: Document) -> Iterable[tuple[tuple[str, int], str]]:
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in state["status"].get(kind, ()):
            yield (one["name"], one["restartCount"]), next(iter(one["state"]))
