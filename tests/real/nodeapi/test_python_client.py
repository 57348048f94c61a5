"""exec and port-forward of the official Python client, which uses v4.channel.k8s.io, through our API server."""

import asyncio
import sys

from node_cluster import Cluster

EXEC = """
from kubernetes import client, config
from kubernetes.stream import stream
api = client.CoreV1Api(config.new_client_from_config({kubeconfig!r}))
script = "read word; echo got $word; echo err >&2; exit 4"
call = dict(command=["sh", "-c", script], stdin=True, stdout=True, stderr=True, _preload_content=False)
session = stream(api.connect_get_namespaced_pod_exec, "web", "default", **call)
session.write_stdin("abc\\n")
session.run_forever(timeout=10)
print([session.read_stdout(), session.read_stderr(), session.returncode])
"""

FORWARD = """
from kubernetes import client, config
from kubernetes.stream import portforward
api = client.CoreV1Api(config.new_client_from_config({kubeconfig!r}))
forward = portforward(api.connect_get_namespaced_pod_portforward, "web", "default", ports="{port}")
socket = forward.socket({port})
socket.sendall(b"you\\n")
print([socket.recv(100), forward.error({port})])
"""


async def printed(program: str) -> str:
    """Run a program, which must succeed, and return its output."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=pipe, stderr=pipe)
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, err.decode()
    return out.decode().strip()


async def test_python_client_runs_commands(cluster: Cluster) -> None:
    """Input, stdout, stderr and the exit code pass through."""
    await cluster.run_pod()
    program = EXEC.format(kubeconfig=str(cluster.server.kubeconfig))
    assert await printed(program) == r"['got abc\n', 'err\n', 4]"


async def test_python_client_forwards_ports(cluster: Cluster) -> None:
    """The ports are in the query."""
    await cluster.run_pod()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as pod:
        port = pod.sockets[0].getsockname()[1]
        program = FORWARD.format(kubeconfig=str(cluster.server.kubeconfig), port=port)
        assert await printed(program) == r"[b'hello you\n', None]"
