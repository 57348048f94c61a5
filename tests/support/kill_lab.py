"""A real API server and a real node to be killed, with records that neither of them can influence.

Each container records its own starts in a file, the ledger; a watch keeps every version of every pod; processes of
containers are found by an entry in their environment.
"""

import asyncio
import json
import os
import select
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import aiohttp

from process_cluster import NODE, PROCESSES, NodeRuntime, pod, shell
from process_lab import all_processes, children_of
from pykubelet.aio.tasks import running
from pykubelet.runtimes.process.shim.processes import boot_id, stat_fields
from pykubelet_process import ADMIN_TOKEN, NodeProcess, ServerProcess

MIRROR, HASH = "kubernetes.io/config.mirror", "kubernetes.io/config.hash"
PODS = "/api/v1/namespaces/default/pods"
# PID and start time of the shell, which `exec` does not change, and the pod's UID as the container sees it.
_SIGN_IN = 'read -r s </proc/self/stat; set -- $s; echo "start $NAME $1 ${22} $POD_UID" >>"$LEDGER"; '
FOR_EVER = "exec sleep 100000"


@dataclass(frozen=True)
class Start:
    """One start of a container, as the container recorded it."""

    container: str
    pid: int
    ticks: int
    pod_uid: str

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        try:
            fields = stat_fields(self.pid)
        except ProcessLookupError:
            return False
        return int(fields[19]) == self.ticks and fields[0] != "Z"


class Program(Protocol):
    """A program that can be killed and started again."""

    def kill(self) -> None: ...

    def start(self) -> Any: ...


class KillLab:
    """API server, manifests and ledgers in one folder, and the versions of pods that a watch has seen."""

    def __init__(self, folder: Path, runtime: NodeRuntime = PROCESSES) -> None:
        self.root, self.manifests, self.ledgers = folder / "node", folder / "manifests", folder / "ledgers"
        self.manifests.mkdir()
        self.ledgers.mkdir()
        self.runtime = runtime
        self.server = ServerProcess(folder)
        self.spawners: set[tuple[int, int]] = set()
        self.versions: dict[str, list[Any]] = {}
        """Every version of every pod that a watch has shown, by name; its last one twice when it was deleted."""
        self._options = (*runtime.options, "--manifests", str(self.manifests))
        self._folder = folder
        self._http: aiohttp.ClientSession | None = None

    def new_node(self) -> NodeProcess:
        """A new process of the node, connected to the server."""
        return NodeProcess(self._folder, "--kubeconfig", str(self.server.kubeconfig), *self._options, name=NODE)

    def container(self, pod_name: str, script: str = FOR_EVER, name: str = "main", **fields: Any) -> dict[str, Any]:
        """A container that records its start in the ledger and then runs the script."""
        own = [
            {"name": "NAME", "value": name},
            {"name": "LEDGER", "value": str(self.ledgers / pod_name)},
            {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        ]
        return shell(_SIGN_IN + script, name, env=[*own, *fields.pop("env", ())], **fields)

    def pod(self, name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        """A pod with these containers, by default one that runs for ever."""
        given = containers or (self.container(name),)
        return pod(name, *given, **{"automountServiceAccountToken": False, **spec})

    def write_manifest(self, document: dict[str, Any]) -> None:
        """Create or replace the manifest of a static pod atomically."""
        name = document["metadata"]["name"]
        temporary = self._folder / "manifest"
        temporary.write_text(json.dumps(document))
        temporary.rename(self.manifests / f"{name}.json")

    def remove_manifest(self, name: str) -> None:
        """Remove the manifest of a static pod."""
        (self.manifests / f"{name}.json").unlink()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the API server and return the answer, which must not be an error."""
        assert self._http is not None
        async with self._http.request(method, self.server.url + path, json=body) as response:
            answer = await response.json()
            assert response.status < 300, answer
            return answer

    async def create(self, document: dict[str, Any]) -> None:
        """Create a pod in the API."""
        await self.ask("POST", PODS, document)

    async def pods(self) -> dict[str, Any]:
        """All pods as the API has them now."""
        return {one["metadata"]["name"]: one for one in (await self.ask("GET", PODS))["items"]}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Watch the pods while the context lasts."""
        async with running({"watch of the test": self._watch}):
            yield

    async def _watch(self) -> None:
        assert self._http is not None
        query = f"{self.server.url}{PODS}?watch=true"
        async with self._http.get(query, timeout=aiohttp.ClientTimeout(total=None)) as response:
            async for line in response.content:
                event = json.loads(line)
                assert event["type"] in {"ADDED", "MODIFIED", "DELETED"}, event
                self.versions.setdefault(event["object"]["metadata"]["name"], []).append(event["object"])

    def starts(self, name: str) -> list[Start]:
        """Every recorded start of a container in pods of this name."""
        with suppress(FileNotFoundError):
            words = (line.split() for line in (self.ledgers / name).read_text().splitlines())
            return [Start(w[1], int(w[2]), int(w[3]), w[4]) for w in words if w[0] == "start"]
        return []

    def processes(self) -> dict[int, int]:
        """All processes of this lab's containers with their sessions, read from /proc."""
        found = {}
        for pid in all_processes():
            with suppress(OSError):
                if f"LEDGER={self.ledgers}/".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found[pid] = int(stat_fields(pid)[3])
        return found

    def pod_folders(self) -> list[Path]:
        """The folders of pods on the node's disk."""
        return list((self.root / "pods").glob("*"))

    def mounts(self) -> list[Path]:
        """All mounts below the folders of pods."""
        places = (Path(line.split()[1]) for line in Path("/proc/self/mounts").read_text().splitlines())
        return [place for place in places if place.is_relative_to(self.root / "pods")]

    def supervisors(self) -> dict[int, str]:
        """All supervisors of this lab, with the ids of their containers."""
        found = {}
        for pid in all_processes():
            with suppress(OSError):
                folder = Path(f"/proc/{pid}/cwd").readlink()
                if folder.parent == self.root / "process/containers" and "shim" in name_of(pid):
                    found[pid] = folder.name
        return found

    def kill_supervisors(self, *names: str) -> None:
        """Kill the supervisors of these pods' containers, or of all pods if none is named, and wait for their end."""
        for pid, container_id in self.supervisors().items():
            config = json.loads((self.root / "process/containers" / container_id / "config.json").read_text())
            if not names or config["facts"]["pod"]["name"].removesuffix(f"-{NODE}") in names:
                kill(pid)

    def kill_containers(self, *names: str) -> None:
        """Kill the first process of each container of these pods, and wait for its end."""
        for start in (start for name in names for start in self.starts(name)):
            if start.is_alive:
                kill(start.pid)

    def programs(self, node: NodeProcess) -> tuple[Program, ...]:
        """The programs that pods need to run, in the order in which they are started."""
        return self.server, node

    def given_up_starts(self) -> int:
        """How many starts of containers were undone as the node that requested them was killed; they are repeated."""
        return 0

    def wrong_helpers(self, running: Mapping[int, str]) -> list[str]:
        """What is wrong with supervisors and spawners; `running` has the PIDs of containers with their pods' names."""
        found = []
        if len(supervisors := self.supervisors()) != len(running):
            found.append(f"{len(supervisors)} supervisors for {len(running)} containers")
        if self.living_spawners() > 1:
            found.append("spawners of killed nodes")
        return found

    def cut_power(self) -> None:
        """Simulate a power failure: kill all processes, unmount all volumes, date all records to an earlier boot."""
        self.kill_supervisors()
        self.end_the_rest()
        for path in (self.root / "process").glob("*/*/*.json"):
            path.write_text(path.read_text().replace(boot_id(), "an-earlier-one"))

    def end_the_rest(self) -> None:
        """Kill all containers, unmount all volumes."""
        for pid in self.processes():
            kill(pid)
        for place in self.mounts():
            subprocess.run(["umount", str(place)], check=True)

    def note_spawner(self, node: NodeProcess) -> None:
        """Remember the process that starts supervisors for this node."""
        for pid in children_of(node.pid):
            with suppress(OSError):
                if "spawn" in name_of(pid):
                    self.spawners.add((pid, int(stat_fields(pid)[19])))

    def living_spawners(self) -> int:
        """How many of the remembered spawners are still alive."""
        return sum(Start("", pid, ticks, "").is_alive for pid, ticks in self.spawners)


def kill(pid: int) -> None:
    """Kill a process; it has ended when this returns."""
    # The process may have ended already.
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [])
        os.close(handle)


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text()


L = TypeVar("L", bound=KillLab)


@asynccontextmanager
async def open_lab(lab: L) -> AsyncIterator[L]:
    """A lab with a running server; kills everything that its containers have left running."""
    await asyncio.to_thread(lab.server.start)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    connector = aiohttp.TCPConnector(ssl=lab.server.tls())
    async with aiohttp.ClientSession(headers=headers, connector=connector, read_bufsize=2**24) as lab._http:
        try:
            yield lab
        finally:
            await asyncio.to_thread(lab.server.kill)
            await asyncio.to_thread(lab.runtime.end, lab.root)
            lab.end_the_rest()


async def until(is_so: Callable[[], Any], *, within_seconds: float = 40.0) -> None:
    """Poll a function until it finds no problem; raises AssertionError with the last problem it found."""
    wrong: Any = None
    with suppress(TimeoutError):
        async with asyncio.timeout(within_seconds):
            while wrong := await is_so():
                await asyncio.sleep(0.1)
            return
    raise AssertionError(wrong)
