"""Job and CronJob controllers on an in-process API server, with simulated nodes whose pods end as scripted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api import schema
from pykubelet.api.errors import NotFound
from pykubelet.api.generated.batch import CronJob, Job, JobStatus
from pykubelet.api.generated.core import ObjectReference, Pod
from pykubelet.api.scheme import CRON_JOBS, JOBS, PODS, TypedKind, as_documents
from pykubelet.api.times import format_time
from pykubelet.client.informers import Informers
from pykubelet.client.interface import NOW, Client, PatchType
from pykubelet.controllers.cronjob.cronjob_controller import CronJobController
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.framework.work_queue import ControllerWorkers
from pykubelet.controllers.job.controller import JobController
from pykubelet.controllers.ttlafterfinished.ttlafterfinished_controller import TtlAfterFinishedController
from pykubelet.testing.local_api import local_api
from pykubelet.testing.virtual_time import VirtualClock

NAMESPACE = "default"


class Run(NamedTuple):
    """How the container of a pod runs: for how long, with which exit code, and how long it takes to stop."""

    seconds: float = 5.0
    code: int = 0
    stop_seconds: float = 2.0


Script = Callable[[Pod], Run]


class PodRunner:
    """Simulates pods: each becomes ready after a second, runs as scripted, and is removed when it is deleted."""

    def __init__(self, client: Client, script: Script) -> None:
        self._client, self._script = client, script
        self.informers = Informers(client=client, clock=VirtualClock())
        self.informers.add_event_handler(PODS, added=self._added, updated=self._updated, deleted=lambda _: None)
        self.seen: dict[str, Pod] = {}
        """Every pod there ever was, by UID, as it was made."""
        self.ends: dict[str, str] = {}
        """The last phase of each that has ended, by UID."""
        self._runs: dict[str, Run] = {}
        self._leaving: set[str] = set()
        self._group: asyncio.TaskGroup | None = None

    async def run(self, ready: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as self._group:
            await self.informers.run(ready)

    def _added(self, pod: Pod) -> None:
        self.seen[pod.metadata.uid] = pod
        assert self._group is not None
        self._group.create_task(self._live(pod))

    def _updated(self, _: Pod, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.metadata.deletion_timestamp is None or uid in self._leaving:
            return
        self._leaving.add(uid)
        assert self._group is not None
        self._group.create_task(self._leave(pod))

    async def _live(self, pod: Pod) -> None:
        self._runs[pod.metadata.uid] = run = self._script(pod)
        await asyncio.sleep(1)
        await self._report(pod, "Running", {"running": {}}, ready="True")
        await asyncio.sleep(run.seconds)
        await self._end(pod, run.code)

    async def _leave(self, pod: Pod) -> None:
        await asyncio.sleep(self._runs[pod.metadata.uid].stop_seconds)
        await self._end(pod, 143)
        with suppress(NotFound):
            await self._client.delete(PODS, pod.metadata.name, namespace=NAMESPACE, options=NOW)

    async def _end(self, pod: Pod, code: int) -> None:
        if pod.metadata.uid in self.ends:
            return
        self.ends[pod.metadata.uid] = phase = "Failed" if code else "Succeeded"
        finished = format_time(VirtualClock().now())
        await self._report(pod, phase, {"terminated": {"exitCode": code, "finishedAt": finished}}, ready="False")

    async def _report(self, pod: Pod, phase: str, state: dict[str, Any], *, ready: str) -> None:
        if phase == "Running" and (pod.metadata.uid in self.ends or pod.metadata.uid in self._leaving):
            return
        status = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": format_time(VirtualClock().now())}],
            "containerStatuses": [
                {"name": "c", "image": "i", "imageID": "", "ready": ready == "True", "restartCount": 0, "state": state}
            ],
        }
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        with suppress(NotFound):
            await self._client.patch(PODS, pod.metadata.name, body, namespace=NAMESPACE, subresource="status")


class BatchWorld:
    """An API server with simulated pods; controllers can be started and stopped."""

    def __init__(self, client: Client, runner: PodRunner) -> None:
        self.client, self.runner = client, runner
        self.told: list[tuple[str, str]] = []

    def event(self, involved: ObjectReference, event_type: str, reason: str, message: str) -> None:
        self.told.append((reason, message))

    def reasons(self, *but: str) -> list[str]:
        """The reasons of all events in order, except the given ones."""
        return [reason for reason, _ in self.told if reason not in but]

    @asynccontextmanager
    async def controllers(self, client: Client | None = None) -> AsyncIterator[None]:
        """Runs the controllers of the batch group, with another client if given."""
        way, clock = client or self.client, VirtualClock()
        informers, informed = Informers(client=way, clock=clock), asyncio.Event()
        control = PodControl(client=way, recorder=self)
        jobs, pods = informers.objects(JOBS), informers.pods
        job = JobController(client=way, pod_control=control, recorder=self, pods=pods, jobs=jobs, clock=clock)
        crons = informers.objects(CRON_JOBS)
        cron = CronJobController(client=way, recorder=self, crons=crons, jobs=jobs, clock=clock)
        ttl = TtlAfterFinishedController(client=way, jobs=jobs, clock=clock)
        for controller in (job, cron, ttl):
            controller.listen(informers)
        work = {
            "job": job.process_next,
            "orphans": job.orphans.process_next,
            "cronjob": cron.process_next,
            "ttl": ttl.process_next,
        }
        runners = {
            name: with_ready_event(ControllerWorkers(name=name, process_next=process_next, informed=informed).run)
            for name, process_next in work.items()
        }
        async with running({"informers": with_ready_event(informers.run, informed), **runners}):
            await informed.wait()
            yield

    async def create_job(self, name: str = "job", **spec: Any) -> Job:
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": job_spec(**spec)}
        await self.client.create(as_documents(schema.JOBS), body, namespace=NAMESPACE)
        return await self.job(name)

    async def create_cron(self, schedule: str, *, job: dict[str, Any] | None = None, **spec: Any) -> CronJob:
        template = {"metadata": {"labels": {"from": "cron"}}, "spec": job_spec(**(job or {}))}
        body = {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "cron"},
            "spec": {"schedule": schedule, "jobTemplate": template, **spec},
        }
        await self.client.create(as_documents(schema.CRON_JOBS), body, namespace=NAMESPACE)
        return await self.cron()

    async def job(self, name: str = "job") -> Job:
        return await self.client.get(JOBS, name, namespace=NAMESPACE)

    async def jobs(self) -> tuple[Job, ...]:
        return (await self.client.list(JOBS, namespace=NAMESPACE)).items

    async def cron(self) -> CronJob:
        return await self.client.get(CRON_JOBS, "cron", namespace=NAMESPACE)

    async def pods(self) -> tuple[Pod, ...]:
        return (await self.client.list(PODS, namespace=NAMESPACE)).items

    async def delete_pod(self, pod: Pod) -> None:
        """Delete a pod with its own grace, as a user would."""
        await self.client.delete(PODS, pod.metadata.name, namespace=NAMESPACE)

    async def change(self, kind: TypedKind[Any], name: str, **spec: Any) -> None:
        """Change fields of an object's spec, as a user would."""
        await self.client.patch(kind, name, {"spec": spec}, namespace=NAMESPACE, patch_type=PatchType.MERGE)

    async def until(self, holds: Callable[[Job], bool], name: str = "job", *, within_seconds: float = 3600) -> Job:
        """Wait until `holds` is true of the job, and return it."""
        async with asyncio.timeout(within_seconds):
            while not holds(job := await self.job(name)):
                await asyncio.sleep(0.5)
        return job


def conditions(job: Job) -> list[tuple[str, str]]:
    """Types and reasons of the conditions with status True."""
    return [(one.type, one.reason) for one in job.status.conditions if one.status == "True"]


def counts(status: JobStatus) -> tuple[int, int, int]:
    """The numbers of active, succeeded and failed pods."""
    return status.active, status.succeeded, status.failed


def job_spec(**spec: Any) -> dict[str, Any]:
    """The spec of a job whose pods are on a node, have one container and never restart it."""
    pod = {"restartPolicy": "Never", "nodeName": "node-1", "containers": [{"name": "c", "image": "i"}]}
    return {"template": {"spec": pod}, **spec}


@asynccontextmanager
async def batch_world(folder: Path, script: Script = lambda _: Run()) -> AsyncIterator[BatchWorld]:
    """An API server with simulated pods, for as long as the context lasts."""
    async with local_api(folder) as api:
        runner, ready = PodRunner(api.client, script), asyncio.Event()
        async with running({"runner": with_ready_event(runner.run, ready)}):
            await ready.wait()
            yield BatchWorld(api.client, runner)
