"""Pod lives recorded from a real kubelet, to be lived again on any node: play one, then compare.

A recording has objects to create, actions with their times, every state that a watch saw, the kubelet's events and the
last full object. Ids, times and addresses are masked there, and here for the comparison.
"""

import asyncio
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykubelet.aio.clock import Clock
from pykubelet.api import resources
from pykubelet.api.typed import PODS, as_documents
from pykubelet.api.wire import Document
from pykubelet.kube.client import Client

FOLDER = Path(__file__).parent / "upstream/kubelet_runs"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
NODE, NAMESPACE, MANIFEST = "n1", "default", "st.json"
PATIENCE_SECONDS = 60.0
POD_DOCUMENTS = as_documents(resources.PODS)
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
_MASKS_BY_KEY = {
    "hostIP": "<host-ip>",
    "podIP": "<pod-ip>",
    "uid": "<uid>",
    "namespace": "<ns>",
    "kubernetes.io/config.hash": "<hash>",
    "kubernetes.io/config.mirror": "<hash>",
}
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b\w+://[-\w]+"), "containerd://<id>"),
    (re.compile(r"sha256:[0-9a-f]{64}"), "sha256:<digest>"),
    (re.compile(rf"_{NAMESPACE}\([^)]+\)"), "_<ns>(<uid>)"),
)


def load(name: str) -> Document:
    """A recording."""
    recording: Document = json.loads((FOLDER / f"{name}.json").read_text())
    return recording


def pods_in(recording: Document) -> list[Document]:
    """The pods of a recording, from its objects or from its manifests."""
    written = [action["with"] for action in recording["actions"] if action["do"] == "write"]
    return [*recording["objects"], *written]


def masked(value: Any, key: str = "") -> Any:
    """A part of an object as a recording shows it."""
    if isinstance(value, dict):
        return {name: masked(one, name) for name, one in value.items()}
    if isinstance(value, list):
        lists = {"hostIPs": "hostIP", "podIPs": "podIP"}
        return [{"ip": _MASKS_BY_KEY[lists[key]]} if key in lists else masked(one, key) for one in value]
    if not isinstance(value, str):
        return value
    if key in _MASKS_BY_KEY:
        return _MASKS_BY_KEY[key]
    for pattern, mask in _MASKS:
        value = pattern.sub(mask, value)
    return value


def _chosen(metadata: Document, names: Iterable[str]) -> Document:
    return {name: metadata[name] for name in names if name in metadata}


@dataclass(slots=True)
class Life:
    """What a watch has seen of a pod's life on our side, masked; and the events about it."""

    states: list[Document] = field(default_factory=list)
    objects: list[Document] = field(default_factory=list)
    events: list[Document] = field(default_factory=list)

    async def watch(self, client: Client) -> None:
        """See everything from now on, until cancelled."""
        begin = (await client.list(POD_DOCUMENTS, namespace=NAMESPACE)).resource_version
        async with client.watch(POD_DOCUMENTS, namespace=NAMESPACE, resource_version=begin) as seen:
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
        """Where each state of a recording is seen here, one after the other; None for one that is not."""
        found: list[int | None] = []
        start = 0
        for shown in recording["pod_as_seen_by_a_watch"]:
            wanted = {name: shown[name] for name in ("type", "metadata", "status")}
            at = next((n for n in range(start, len(self.states)) if self.states[n] == wanted), None)
            found.append(at)
            start = start if at is None else at + 1
        return found


class Replay:
    """Does to an API server and a folder of manifests what was done when a life was recorded."""

    def __init__(self, recording: Document, *, client: Client, manifests: Path, clock: Clock) -> None:
        self._recording, self._client, self._manifests, self._clock = recording, client, manifests, clock
        self._started = 0.0

    async def run(self) -> Life:
        """The life, as far as the recording goes or patience lasts."""
        life = Life()
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(life.watch(self._client))
            await asyncio.sleep(0.001)
            self._started = self._clock.monotonic()
            for one in self._recording["objects"]:
                await self._client.create(POD_DOCUMENTS, _admitted(one), namespace=NAMESPACE)
            for action in self._recording["actions"]:
                await asyncio.sleep(max(action["at_seconds"] - (self._clock.monotonic() - self._started), 0))
                await self._act(action["do"], action["with"])
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while life.positions(self._recording)[-1] is None:
                        await asyncio.sleep(0.1)
            # What belongs to the last state may come a moment later.
            await asyncio.sleep(0.5)
            watch.cancel()
        life.events = await self._events()
        return life

    async def _act(self, verb: str, what: Any) -> None:
        client, manifest = self._client, self._manifests / MANIFEST
        match verb:
            case "delete":
                await client.delete(PODS, what, namespace=NAMESPACE)
            case "patch":
                await client.patch(PODS, what[0], what[1], namespace=NAMESPACE)
            case "patch-status":
                await client.patch(PODS, what[0], what[1], namespace=NAMESPACE, subresource="status")
            case "create":
                await client.create(as_documents(resources.CONFIG_MAPS), what, namespace=NAMESPACE)
            case "write":
                manifest.write_text(json.dumps(what).replace("${ns}", NAMESPACE))
            case "unlink":
                manifest.unlink()

    async def _events(self) -> list[Document]:
        listed = (await self._client.list(as_documents(resources.EVENTS), namespace=NAMESPACE)).items
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
