"""Replays pod lives recorded from kubelet v1.34.11 with containerd, all at once, with real processes.

A server and a node with the process runtime run in real time. Recordings are changed only where processes differ by
nature: see "The process runtime" in docs/differences.md.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import recorded_runs
from process_cluster import process_cluster
from pykubelet.api.serializer import Document
from replay_on_node import live

pytestmark = pytest.mark.timeout(300)
"""All lives together take as long as the longest one, about 40 seconds."""

NO_COMMAND = (
    'container "c" has no command: images are only names on this node, and it runs commands of the machine: '
    "set command or args"
)
BY_NATURE = {
    # Prefixes of containerd and runc, which do not run here; their error texts are kept.
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: ": "",
    "no such file or directory: unknown": "no such file or directory",
    # Images are only names here: none is missing, and none has a command.
    '"reason": "ErrImageNeverPull"': '"reason": "CreateContainerConfigError"',
    json.dumps('Container image "localhost/absent:1" is not present with pull policy of Never'): json.dumps(NO_COMMAND),
}
"""Texts of recordings that are others where containers are processes."""
EVENTS_BY_NATURE = {
    "image-never": [
        ("Normal", "Pulled", 'Container image "localhost/absent:1" already present on machine'),
        ("Warning", "Failed", f"Error: {NO_COMMAND}"),
    ]
}


def recording(name: str, flag: Path) -> Document:
    """The expected life with processes, where a masked path is replaced by one of this machine."""
    text = json.dumps(recorded_runs.load(name)).replace("<path>", str(flag))
    for theirs, ours in BY_NATURE.items():
        text = text.replace(theirs, ours)
    changed: Document = json.loads(text)
    if name in EVENTS_BY_NATURE:
        changed["kubelet_events"] = [
            {"type": type, "reason": reason, "message": message, "count": 2, "object": "spec.containers{c}"}
            for type, reason, message in EVENTS_BY_NATURE[name]
        ]
    return changed


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """The differences of each life from its recording; all run side by side on one node."""
    folder = tmp_path_factory.mktemp("lives")
    with process_cluster(folder, node_name=recorded_runs.NODE) as cluster:
        yield asyncio.run(live(cluster, lambda name, namespace: recording(name, folder / namespace)))


@pytest.mark.parametrize("name", recorded_runs.NAMES)
def test_pod_lives_as_on_the_kubelet(name: str, differences: dict[str, list[str]]) -> None:
    """A pod goes through the recorded states to the recorded end, with the recorded events."""
    assert differences[name] == []
