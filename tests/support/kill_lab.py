"""A real API server and a real node to be killed, with witnesses that neither of them can influence.

Each container writes down its own starts in a file, a ledger; a watch keeps every version of every pod; processes are
told by an entry of their environment.
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
# Number and start time of the shell, which `exec` does not change, and the pod as the container knows it.
_SIGN_IN = 'read -r s </proc/self/stat; set -- $s; echo "start $NAME $1 ${22} $POD_UID" >>"$LEDGER"; '
FOR_EVER = "exec sleep 100000"


@dataclass(frozen=True)
class Start:
    """One start of a container, as it wrote it down itself."""

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
    """What can be killed, and started again."""

    def kill(self) -> None: ...

    def start(self) -> Any: ...


class KillLab:
    """All of it, in one folder."""

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
        """The node, once there is a server."""
        return NodeProcess(self._folder, "--kubeconfig", str(self.server.kubeconfig), *self._options, name=NODE)

    def container(self, pod_name: str, script: str = FOR_EVER, name: str = "main", **fields: Any) -> dict[str, Any]:
        """A container that signs in, and then does what the script says."""
        own = [
            {"name": "NAME", "value": name},
            {"name": "LEDGER", "value": str(self.ledgers / pod_name)},
            {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        ]
        return shell(_SIGN_IN + script, name, env=[*own, *fields.pop("env", ())], **fields)

    def pod(self, name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
        """A pod of such containers; one that runs for ever if none is given."""
        given = containers or (self.container(name),)
        return pod(name, *given, **{"automountServiceAccountToken": False, **spec})

    def write_manifest(self, document: dict[str, Any]) -> None:
        """Make or change the file of a static pod, all at once."""
        name = document["metadata"]["name"]
        temporary = self._folder / "manifest"
        temporary.write_text(json.dumps(document))
        temporary.rename(self.manifests / f"{name}.json")

    def remove_manifest(self, name: str) -> None:
        """Remove the file of a static pod."""
        (self.manifests / f"{name}.json").unlink()

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """A request to the API server; its answer, which is not an error."""
        assert self._http is not None
        async with self._http.request(method, self.server.url + path, json=body) as response:
            answer = await response.json()
            assert response.status < 300, answer
            return answer

    async def create(self, document: dict[str, Any]) -> None:
        """Create a pod."""
        await self.ask("POST", PODS, document)

    async def pods(self) -> dict[str, Any]:
        """All pods as the API has them now."""
        return {one["metadata"]["name"]: one for one in (await self.ask("GET", PODS))["items"]}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Watch the pods meanwhile."""
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
        """Every start of a container of a pod of this name."""
        with suppress(FileNotFoundError):
            words = (line.split() for line in (self.ledgers / name).read_text().splitlines())
            return [Start(w[1], int(w[2]), int(w[3]), w[4]) for w in words if w[0] == "start"]
        return []

    def processes(self) -> dict[int, int]:
        """All processes of all containers of this lab and their sessions, whoever knows of them."""
        found = {}
        for pid in all_processes():
            with suppress(OSError):
                if f"LEDGER={self.ledgers}/".encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    found[pid] = int(stat_fields(pid)[3])
        return found

    def pod_folders(self) -> list[Path]:
        """What the node keeps on disk of pods."""
        return list((self.root / "pods").glob("*"))

    def mounts(self) -> list[Path]:
        """All that is mounted for pods."""
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
        """Kill the supervisors of all containers of these pods, of all pods if none is named; gone when this returns."""
        for pid, container_id in self.supervisors().items():
            config = json.loads((self.root / "process/containers" / container_id / "config.json").read_text())
            if not names or config["facts"]["pod"]["name"].removesuffix(f"-{NODE}") in names:
                kill(pid)

    def kill_containers(self, *names: str) -> None:
        """Likewise, the first processes of containers."""
        for start in (start for name in names for start in self.starts(name)):
            if start.is_alive:
                kill(start.pid)

    def programs(self, node: NodeProcess) -> tuple[Program, ...]:
        """All that is to be there for pods to run, in the order in which to start it."""
        return self.server, node

    def given_up_starts(self) -> int:
        """How many starts were undone because the node that asked for them was killed: they come again."""
        return 0

    def wrong_helpers(self, running: Mapping[int, str]) -> list[str]:
        """What is wrong with those that look after containers; these run, in pods of these names."""
        found = []
        if len(supervisors := self.supervisors()) != len(running):
            found.append(f"{len(supervisors)} supervisors for {len(running)} containers")
        if self.living_spawners() > 1:
            found.append("spawners of killed nodes")
        return found

    def cut_power(self) -> None:
        """Nothing runs, nothing is mounted, and all that is written down is of an earlier boot of the machine."""
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
        """Remember who starts supervisors for this node."""
        for pid in children_of(node.pid):
            with suppress(OSError):
                if "spawn" in name_of(pid):
                    self.spawners.add((pid, int(stat_fields(pid)[19])))

    def living_spawners(self) -> int:
        """How many of those remembered are still there."""
        return sum(Start("", pid, ticks, "").is_alive for pid, ticks in self.spawners)


def kill(pid: int) -> None:
    """Kill a process; it has ended when this returns."""
    # What is gone already is as dead as it should be.
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
    """A lab with a server; whatever its containers have left running is ended."""
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
    """Look again and again until a function of now finds nothing wrong; AssertionError with what it found."""
    wrong: Any = None
    with suppress(TimeoutError):
        async with asyncio.timeout(within_seconds):
            while wrong := await is_so():
                await asyncio.sleep(0.1)
            return
    raise AssertionError(wrong)
