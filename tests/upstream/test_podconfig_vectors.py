"""PodConfig compared with Kubernetes itself: every case of vectors/podconfig.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.pods import CONFIG_SEEN, CONFIG_SOURCE
from pykubelet.api.serializer import Document, from_document, to_document
from pykubelet.kubelet.config.config import NotificationMode, PodConfig
from pykubelet.kubelet.types import PodOperation, PodUpdate
from pykubelet.testing.virtual_time import ManualClock

CASES = json.loads((Path(__file__).parent / "vectors" / "podconfig.json").read_text())["cases"]


class Events:
    """Records events in the form that the vectors use."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.lines.append(f"{event_type} {reason} {message}")


def pruned(value: Any) -> Any:
    """Remove empty maps, lists and texts, which the vectors omit."""
    if isinstance(value, dict):
        kept = {key: pruned(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [], "", None)}
    return [pruned(item) for item in value] if isinstance(value, list) else value


def as_vector(pod: Pod) -> Document:
    document = to_document(pod)
    document.pop("apiVersion", None)
    document.pop("kind", None)
    if CONFIG_SEEN in document["metadata"].get("annotations", {}):
        document["metadata"]["annotations"][CONFIG_SEEN] = "<time>"
    pruned_document: Document = pruned(document)
    return pruned_document


def place(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata["uid"], metadata.get("annotations", {}).get(CONFIG_SOURCE, "")


def told(update: PodUpdate) -> Document:
    return {
        "op": update.op.name,
        "source": str(update.source),
        "pods": sorted((as_vector(pod) for pod in update.pods), key=place),
    }


@pytest.mark.parametrize("case", CASES, ids=[f"{number} {case['name']}" for number, case in enumerate(CASES)])
def test_pod_config_sends_what_kubernetes_sends(case: Document) -> None:
    events = Events()
    config = PodConfig(mode=NotificationMode(case["mode"]), clock=ManualClock(), recorder=events)
    for source in ("file", "http", "api"):
        config.channel(source)
    seen: set[str] = set()
    for message in case["messages"]:
        pods = tuple(from_document(pod, Pod) for pod in message["pods"])
        events.lines.clear()
        updates = config.merge(message["source"], PodUpdate(PodOperation[message["op"]], message["source"], pods))
        seen.update(update.source for update in updates)
        expect = message["expect"]
        expected_updates = [{**update, "pods": pruned(update["pods"])} for update in expect["updates"]]
        assert [told(update) for update in updates] == expected_updates
        assert events.lines == expect["events"]
        assert config.seen_all_sources(seen) is expect["seen_all_sources"]
