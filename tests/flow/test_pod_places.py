"""Files that count as the local storage of a pod."""

from pathlib import Path
from typing import Any

import pytest

from whole_node import container, is_ready, world

MIB = 2**20
LIMITED: dict[str, Any] = {"resources": {"limits": {"ephemeral-storage": "1Mi"}}}


@pytest.mark.parametrize("file", ["etc-hosts", "containers/main/0"])
async def test_files_that_containers_may_write_are_counted(tmp_path: Path, file: str) -> None:
    """The hosts file and the termination log are mounted into the container, so a pod that fills them is evicted."""
    async with world(tmp_path) as outside, outside.running_node():
        made = await outside.create("web", containers=[{**container(), **LIMITED}])
        await outside.until("web", is_ready)
        path = tmp_path / "node/pods" / made.metadata.uid / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 2 * MIB)
        gone = await outside.until("web", lambda pod: pod.status.phase == "Failed", within_seconds=300)
        assert gone.status.reason == "Evicted"
        assert "ephemeral local storage usage exceeds the total limit" in gone.status.message
