"""Ends what `up` runs: program, containers, networks, mounts and rules; on request also the data.

Nothing of this needs the program: it is found in the data folder, the container runtime and the kernel. `_CLEANERS` lists
what else is to be ended after the containers. The node's lock is held meanwhile, so that no other `up` starts on the folder.
"""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from ipaddress import IPv4Network
from pathlib import Path

from pykubelet.aio.clock import Clock, SystemClock
from pykubelet.aio.log import get_logger
from pykubelet.api.generated.core import Pod
from pykubelet.api.pods import CONFIG_MIRROR, PodUid
from pykubelet.api.schema import PODS
from pykubelet.api.serializer import from_document
from pykubelet.apiserver.storage.durable_store import open_store
from pykubelet.apiserver.storage.interfaces import StoreInUse, StoreRefused, StoreUnusable
from pykubelet.app import proxy
from pykubelet.app.holders import NODE_LOCK, Holder, file_holder
from pykubelet.app.node_record import FILE as NODE_RECORD
from pykubelet.app.node_record import read_record
from pykubelet.app.pod_network import AUTO, HOST, open_node_network
from pykubelet.app.program import Say
from pykubelet.app.runtimes import RuntimeParts, open_runtime, runs_processes
from pykubelet.app.settings import CannotStart, DownSettings, NodeSettings
from pykubelet.client.recorder import LogRecorder
from pykubelet.kubelet.kuberuntime.termination import ContainerKiller
from pykubelet.kubelet.lifecycle.handlers import HandlerRunner
from pykubelet.kubelet.volumemanager.filesystem import CrossesMount, SystemMounter, names_in, opened, remove_tree
from pykubelet.podnetwork.gateway import remove_gateways
from pykubelet.podnetwork.masquerade import Masquerade
from pykubelet.podnetwork.routes import HostRoutes
from pykubelet.runtimes.folder_lock import FolderInUse, FolderLock
from pykubelet.runtimes.protocol import ContainerState, Runtime, RuntimeFailure, RuntimePod

log = get_logger(__name__)

_DATABASE, _NODE, _VOLUMES = "state.db", "node", "volumes"
SERVICE_PROXY = "service-proxy"
"""The file by which `up` records that Services may have rules in the network namespace."""
_PROCESS = "process"
_STOP_SECONDS = 30.0
"""How long `up` may take to stop; it needs ten at most."""
# Database files and backups have names that begin with that of the database.
_OURS = re.compile(r"state\.db.*|node|volumes|pki|audit\.log.*|admin\.kubeconfig|service-proxy|page-link|backup\.db.*")
_OCTAL = re.compile(r"\\([0-7]{3})")


def run(settings: DownSettings, *, say: Say) -> None:
    """End everything; says so if there was nothing. CannotStart if this user may not, or something does not end."""
    if not _has_folder(settings):
        say(f"nothing is running: there is no {settings.data_dir}")
        return
    asyncio.run(_down(settings, SystemClock(), say))
    if settings.purge:
        _purge(settings, say)


def _has_folder(settings: DownSettings) -> bool:
    """Whether there is a folder; CannotStart unless it is one that `up` made, for this user."""
    folder = settings.data_dir
    try:
        if not folder.exists():
            return False
        owner = folder.stat().st_uid
        if owner != os.geteuid():
            raise CannotStart(f"{folder} belongs to user {owner}, not to you: run pykubelet down as that user")
        is_ours = any((folder / name).exists() for name in (_DATABASE, f"{_NODE}/{NODE_RECORD}"))
    except OSError as error:
        raise CannotStart(f"{error.filename}: {error.strerror}") from error
    if not is_ours:
        raise CannotStart(f"{folder} is no data folder of pykubelet up: it has neither {_DATABASE} nor a node")
    if settings.purge and folder.is_symlink():
        raise CannotStart(f"{folder} is a link, which --purge does not follow: name the folder itself")
    if settings.purge and not settings.is_confirmed and not sys.stdin.isatty():
        raise CannotStart("--purge removes all data and needs a terminal to ask, or --yes")
    return True


async def _down(settings: DownSettings, clock: Clock, say: Say) -> None:
    root = settings.data_dir / _NODE
    with ExitStack() as stack:
        was_running = await _end_program(root, say)
        lock = FolderLock(root / NODE_LOCK)
        try:
            root.mkdir(0o750, exist_ok=True)
            lock.acquire()
        except FolderInUse as error:
            raise CannotStart(f"another pykubelet has just started on {settings.data_dir}: stop it first") from error
        except OSError as error:
            raise CannotStart(f"{error.filename}: {error.strerror}") from error
        stack.callback(lock.release)
        specs = await _pod_specs(settings.data_dir / _DATABASE, clock)
        stopped = 0
        for node_settings in _runtimes(settings, root):
            try:
                async with (
                    open_node_network(node_settings, runs_processes=runs_processes(node_settings)) as network,
                    open_runtime(node_settings, clock=clock, network=network) as parts,
                ):
                    stopped += await _stop_pods(parts, root, specs, clock, say)
            except RuntimeFailure as failure:
                raise CannotStart(f"the pods cannot be stopped: {failure.message}") from failure
        ended = [what for clean in _CLEANERS if (what := await clean(settings))]
        for what in ended:
            say(what)
        if not (was_running or stopped or ended):
            say(f"nothing is running from {settings.data_dir}")


async def _end_program(root: Path, say: Say) -> bool:
    """End the `up` that holds the node's lock, if any; returns whether there was one."""
    path = root / NODE_LOCK
    holder = file_holder(path) if path.exists() else None
    if holder is None:
        return False
    if holder.program != "pykubelet up":
        raise CannotStart(f"{root.parent} is in use by {holder}: stop it first")
    say(f"stopping {holder}")
    async with _process(holder, path) as handle:
        if handle is None:
            return True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            if await _has_ended(handle):
                return True
            log.warning("pykubelet up does not end", process=holder.pid, signal=number.name)
    raise CannotStart(f"{holder} does not end")


@asynccontextmanager
async def _process(holder: Holder, lock: Path) -> AsyncIterator[int | None]:
    """A pidfd of the holder of a lock; None if it has ended. Its number cannot be that of a later process."""
    try:
        handle = os.pidfd_open(holder.pid)
    except ProcessLookupError:
        yield None
        return
    try:
        # Asked again: the process that is open now is the one that has the file.
        now = file_holder(lock)
        yield handle if now is not None and now.pid == holder.pid else None
    finally:
        os.close(handle)


async def _has_ended(handle: int) -> bool:
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(handle)
    return True


async def _pod_specs(database: Path, clock: Clock) -> Mapping[PodUid, Pod]:
    """The pods in the database, for their grace periods and hooks; none if it cannot be read."""
    if not await asyncio.to_thread(database.exists):
        return {}
    try:
        async with open_store(database, clock=clock) as store:
            pods = [from_document(entry.document, Pod) for entry in store.list(PODS.group_resource).entries]
    except StoreInUse as error:
        raise CannotStart(f"{database} is in use by another process: stop it first") from error
    except (StoreRefused, StoreUnusable) as error:
        log.warning("pods are stopped with the shortest grace period", reason=error)
        return {}
    # The containers of a static pod have its own UID, not that of its mirror.
    return {PodUid(pod.metadata.annotations.get(CONFIG_MIRROR, pod.metadata.uid)): pod for pod in pods}


def _runtimes(settings: DownSettings, root: Path) -> list[NodeSettings]:
    """The runtimes that may have pods of this folder: that of the last node, and processes of an earlier one."""
    record = read_record(root)
    names = {"cri"} if record is not None and record.runtime not in {_PROCESS, "sim"} else set()
    names |= {_PROCESS} if (root / _PROCESS).exists() else set()
    # An ordinary user's pods are in the network of a holder if there is one; it must not be started for this.
    pod_network = HOST if os.geteuid() != 0 else AUTO
    return [
        NodeSettings(
            node_name="down", root_dir=root, runtime=name, cri_socket=settings.cri_socket, pod_network=pod_network
        )
        for name in sorted(names)
    ]


async def _stop_pods(parts: RuntimeParts, root: Path, specs: Mapping[PodUid, Pod], clock: Clock, say: Say) -> int:
    """Stop the pods of one runtime with their hooks and grace periods; returns how many there were."""
    runtime, events = parts.runtime, LogRecorder()
    hooks = HandlerRunner(commands=parts.commands, http=parts.hook_http, runtime=runtime, events=events)
    killer = ContainerKiller(runtime=runtime, hooks=hooks, events=events, clock=clock)
    is_process = parts.name == _PROCESS
    # A CRI runtime may also have pods of others.
    pods = [pod for pod in await runtime.pods() if is_process or _is_of_node(root, pod)]
    alive = [pod for pod in pods if _is_alive(pod)]
    if alive:
        say(f"stopping {len(alive)} {'pod' if len(alive) == 1 else 'pods'}")
    async with asyncio.TaskGroup() as group:
        for pod in pods:
            work = _stop_pod(killer, runtime, pod, specs.get(pod.uid), is_removed=not is_process)
            group.create_task(work, name=f"stop {pod.namespace}/{pod.name}")
    left = [pod for pod in await runtime.pods() if pod.uid in {one.uid for one in pods} and _is_alive(pod)]
    if left:
        names = ", ".join(f"{pod.namespace}/{pod.name}" for pod in left)
        raise CannotStart(f"these pods do not stop: {names}")
    if parts.orphans is not None:
        await parts.orphans.remove_orphans(_Others(frozenset(pod.uid for pod in pods)))
    return len(alive) if is_process else len(pods)


class _Others:
    """All pods but those of the folder, for what removes the remains of every pod that it is not to keep."""

    def __init__(self, ours: frozenset[PodUid]) -> None:
        self._ours = ours

    def __contains__(self, uid: object) -> bool:
        return uid not in self._ours


async def _stop_pod(
    killer: ContainerKiller, runtime: Runtime, observed: RuntimePod, pod: Pod | None, *, is_removed: bool
) -> None:
    results = await killer.kill_pod(pod, observed)
    for failed in (one for one in results if one.reason):
        log.error("pod not stopped", pod=f"{observed.namespace}/{observed.name}", reason=failed.message)
    if not is_removed:
        return
    for sandbox in observed.sandboxes:
        try:
            await runtime.remove(sandbox.id)
        except RuntimeFailure as failure:
            log.error("pod not removed", pod=f"{observed.namespace}/{observed.name}", reason=failure.message)


def _is_of_node(root: Path, pod: RuntimePod) -> bool:
    """Whether the kubelet has files of the pod."""
    return (root / "pods" / pod.uid).exists() or (root / "logs/pods" / f"{pod.namespace}_{pod.name}_{pod.uid}").exists()


def _is_alive(pod: RuntimePod) -> bool:
    return any(one.state == ContainerState.RUNNING for one in pod.containers) or any(
        one.is_ready for one in pod.sandboxes
    )


async def _remove_pod_rules(settings: DownSettings) -> str:
    """Removes what leads packets to pods and from them: rules, routes, and the gateway that a killed `up` has left."""
    root = (settings.data_dir / _NODE).absolute()
    if os.geteuid() != 0:
        return ""
    for networks in (root / _PROCESS / "networks", root / "cni"):
        if networks.exists():
            await Masquerade(networks, "").remove()
    record = read_record(root)
    with suppress(OSError):
        if (root / _PROCESS / "networks").exists():
            await asyncio.to_thread(remove_gateways)
        if record is not None and record.cluster_cidr:
            await HostRoutes().remove_within(IPv4Network(record.cluster_cidr))
    return ""


async def _unmount(settings: DownSettings) -> str:
    """Unmounts what the kubelet mounted for pods, the innermost first."""
    mounter, count = SystemMounter(), 0
    for path in sorted(_mounts_below(settings.data_dir.resolve() / _NODE), reverse=True):
        try:
            mounter.unmount(path)
            count += 1
        except OSError as error:
            log.error("not unmounted", path=path, reason=error.strerror)
    return f"{count} {'mount' if count == 1 else 'mounts'} of pods removed" if count else ""


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    paths = (_OCTAL.sub(lambda found: chr(int(found[1], 8)), line.split()[4]) for line in lines)
    return [path for path in paths if path.startswith(f"{folder}/")]


async def _remove_service_rules(settings: DownSettings) -> str:
    """Deletes the rules of Services if `up` has written some and no other proxy works in the network namespace."""
    record = settings.data_dir / SERVICE_PROXY
    if os.geteuid() != 0 or not record.exists():
        return ""
    try:
        was_there = await proxy.remove_rules()
    except CannotStart as error:
        # Another one has taken over, or nftables is not available any more.
        log.info("rules of Services not removed", reason=error)
        return ""
    record.unlink(missing_ok=True)
    return "the rules of Services are removed" if was_there else ""


_CLEANERS: tuple[Callable[[DownSettings], Awaitable[str]], ...] = (_remove_pod_rules, _unmount, _remove_service_rules)
"""What is ended after the containers, in order. Each says what it has ended, or returns an empty string."""


def _purge(settings: DownSettings, say: Say) -> None:
    """Remove what `up` keeps in the folder, and the folder if nothing else is in it."""
    folder = settings.data_dir
    volumes = sorted(path.name for path in (folder / _VOLUMES).glob("*")) if (folder / _VOLUMES).is_dir() else []
    claimed = f"{len(volumes)} claimed volume{'' if len(volumes) == 1 else 's'}"
    say(f"{folder} has all objects of the cluster, its keys, the logs and volumes of pods, and {claimed}")
    for name in volumes:
        say(f"  volume {name}")
    if not settings.is_confirmed and not settings.confirm("Remove them for good?"):
        raise CannotStart("nothing is removed")
    try:
        with opened(str(folder)) as handle:
            for name in names_in(handle):
                if _OURS.fullmatch(name):
                    remove_tree(handle, name)
            left = names_in(handle)
    except CrossesMount as error:
        raise CannotStart(f"something is mounted in {error.filename} of {folder}: unmount it first") from error
    except OSError as error:
        raise CannotStart(f"{folder}: {error.filename}: {error.strerror}") from error
    if left:
        say(f"{folder} is kept for files that are not of pykubelet: {', '.join(left[:10])}")
        return
    folder.rmdir()
    say(f"{folder} is removed")
