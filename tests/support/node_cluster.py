"""An API server, a node whose API is served by the test, and kubectl."""

import asyncio
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubectl import require_kubectl
from node_api_rig import NodeRig
from pykubelet.api.generated.core import Pod
from pykubelet.api.serializer import to_document
from pykubelet.testing.build import container, pod
from pykubelet_process import ServerProcess

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
WEB_SOCKET = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"}


@dataclass
class Done:
    """How a program ended."""

    code: int
    out: bytes
    err: str


class Cluster:
    """The API server, a node in it, and kubectl, which runs without blocking the event loop."""

    def __init__(self, server: ServerProcess, rig: NodeRig, port: int, cache: Path) -> None:
        self.server, self.rig, self.node_url = server, rig, f"https://127.0.0.1:{port}"
        self._command = [require_kubectl(), f"--kubeconfig={server.kubeconfig}", f"--cache-dir={cache}"]

    def command(self, *arguments: str) -> list[str]:
        """The command line of kubectl."""
        return [*self._command, *arguments]

    async def start(self, *arguments: str, environment: dict[str, str] | None = None) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *self._command, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **(environment or {})}
        )

    async def kubectl(self, *arguments: str, given: bytes = b"", environment: dict[str, str] | None = None) -> Done:
        process = await self.start(*arguments, environment=environment)
        out, err = await asyncio.wait_for(process.communicate(given), 30)
        return Done(process.returncode or 0, out, err.decode())

    async def apply(self, document: Any, status: Any) -> None:
        """Create an object and give it a status."""
        made = await self.kubectl("apply", "-f", "-", given=json.dumps(document).encode())
        assert made.code == 0, made.err
        name = f"{document['kind'].lower()}/{document['metadata']['name']}"
        patch = json.dumps({"status": status})
        patched = await self.kubectl("patch", name, "--subresource=status", "--type=merge", "-p", patch)
        assert patched.code == 0, patched.err

    async def run_pod(self, wanted: Pod | None = None) -> Pod:
        """Create a pod that the API and the node report as running."""
        given = wanted or pod("web", containers=[container("main")])
        document = to_document(given)
        document["metadata"] = {"name": given.metadata.name, "namespace": given.metadata.namespace}
        document["spec"]["automountServiceAccountToken"] = False
        del document["status"]
        await self.apply(document, {"phase": "Running"})
        return self.rig.add_pod(given)
