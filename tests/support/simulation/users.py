"""Users who create, change and delete everything at random, through a network that fails for them too.

They keep within bounds: some objects of each kind, so that a small machine can run all of it. `tidy` ends what would go
on for ever, `leave` deletes everything.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from pykubelet.api import schema
from pykubelet.api.errors import ApiError, NotFound
from pykubelet.api.generated.meta import DeleteOptions
from pykubelet.api.schema import Resource
from pykubelet.api.scheme import as_documents
from pykubelet.api.serializer import Document
from pykubelet.client.interface import ControllerClient, PatchType
from pykubelet.runtimes.sim.runtime import ANNOTATION
from simulation.cluster import SimulatedCluster
from simulation.trace import Trace, random_for

NAMESPACE = "default"
BUILT_IN = ("kube-root-ca.crt", "kubernetes")
"""Objects that the cluster keeps by itself."""
WORKLOADS = (
    schema.DEPLOYMENTS,
    schema.STATEFUL_SETS,
    schema.DAEMON_SETS,
    schema.JOBS,
    schema.CRON_JOBS,
    schema.REPLICA_SETS,
)
KINDS = (*WORKLOADS, schema.PODS, schema.CONFIG_MAPS, schema.SERVICES, schema.POD_DISRUPTION_BUDGETS)
MOST = {schema.DEPLOYMENTS: 3, schema.PODS: 6, schema.CONFIG_MAPS: 3, schema.JOBS: 4, schema.CRON_JOBS: 1}
"""The number of objects of a kind that users keep; 2 of any other kind."""
RUNS: Sequence[Document] = (
    {},
    {},
    {},
    {"runs": [{"seconds": 3, "exitCode": 2}, {}]},
    {"runs": [{"seconds": 5}, {"seconds": 9, "exitCode": 3}, {}]},
    {"stopSeconds": 4, "stopExitCode": 143},
    {"stopSeconds": 3600},
    {"startSeconds": 2},
)
UNSTABLE_RUNS: Sequence[Document] = (*RUNS, {"runs": [{"seconds": 40, "exitCode": 1}]})
"""For pods that need not become ready."""
ENDING_RUNS: Sequence[Document] = (
    {"runs": [{"seconds": 2}]},
    {"runs": [{"seconds": 12}]},
    {"runs": [{"seconds": 1, "exitCode": 4}, {"seconds": 3}]},
    {"runs": [{"seconds": 2, "exitCode": 5}]},
)
FOREGROUND = DeleteOptions(propagation_policy="Foreground")
ORPHAN = DeleteOptions(propagation_policy="Orphan")
NO_GRACE = DeleteOptions(grace_period_seconds=0)


TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
    for key, seconds in (("not-ready", 5), ("unreachable", 20))
]
"""For pods that do not wait five minutes for a lost node."""


class Users:
    """Random operations on namespaces, the objects in them, the nodes and the manifests of their machines."""

    def __init__(self, *, seed: int, trace: Trace, api: ControllerClient, cluster: SimulatedCluster) -> None:
        self._trace, self._api, self._cluster = trace, api, cluster
        self._machines = [*cluster.machines.values()]
        self._is_large = len(self._machines) > 1
        self._random = random_for(seed, "users")
        self._numbers = 0
        self._operations: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (10, self._create),
            (6, self._delete),
            (8, self._change),
            (2, self._kill_pod),
            (2, self._cordon),
            (4, self._write_manifest),
            (2, self._remove_manifest),
        ]
        if self._is_large:
            self._operations += [(3, self._create_namespace), (3, self._delete_namespace), (3, self._delete_lost_node)]

    async def run(self, pause_seconds: float) -> None:
        """Work until cancelled."""
        weights = [weight for weight, _ in self._operations]
        while True:
            await asyncio.sleep(self._random.expovariate(1 / pause_seconds))
            [(_, operation)] = self._random.choices(self._operations, weights)
            with suppress(ApiError):
                await operation()

    async def tidy(self) -> None:
        """End what hinders convergence: cordons, and jobs that start again and again."""
        for machine in self._machines:
            await self._insist(partial(self._patch, schema.NODES, machine.name, {"spec": {"unschedulable": None}}))
        for cron in await self._all(schema.CRON_JOBS):
            suspend = partial(self._patch, schema.CRON_JOBS, _name(cron), {"spec": {"suspend": True}}, _namespace(cron))
            await self._insist(suspend)

    async def leave(self) -> None:
        """Delete everything."""
        for machine in self._machines:
            for path in sorted(machine.manifests.iterdir()):
                path.unlink()
        for kind in (*KINDS, schema.CONTROLLER_REVISIONS, schema.PERSISTENT_VOLUME_CLAIMS):
            for found in await self._all(kind):
                if _name(found) not in BUILT_IN:
                    await self._insist(partial(self._remove, kind, _name(found), None, _namespace(found)))
        for name in await self._spaces():
            await self._insist(partial(self._remove, schema.NAMESPACES, name, None, ""))

    async def _insist(self, call: Callable[[], Awaitable[Any]]) -> None:
        while True:
            try:
                await call()
            except NotFound:
                return
            except ApiError:
                await asyncio.sleep(1)
            else:
                return

    async def _all(self, kind: Resource) -> list[Document]:
        """The objects of a kind, in all namespaces that users have."""
        namespace = NAMESPACE if kind.namespaced and not self._is_large else ""
        found = (await self._api.list(as_documents(kind), namespace=namespace)).items
        return [one for one in found if not _namespace(one).startswith("kube-")]

    async def _spaces(self) -> list[str]:
        """The namespaces that users have created."""
        found = await self._all(schema.NAMESPACES) if self._is_large else []
        return sorted(_name(one) for one in found if _name(one).startswith("team-"))

    async def _create_namespace(self) -> None:
        # A name comes back, perhaps while the namespace still ends.
        name = f"team-{self._random.randint(1, 2)}"
        self._trace.note(f"user creates namespace {name}")
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self._api.create(as_documents(schema.NAMESPACES), body)

    async def _delete_namespace(self) -> None:
        if spaces := await self._spaces():
            name = self._random.choice(spaces)
            self._trace.note(f"user deletes namespace {name}")
            await self._remove(schema.NAMESPACES, name, None, "")

    async def _delete_lost_node(self) -> None:
        if down := self._cluster.down():
            name = self._random.choice(down)
            self._trace.note(f"user deletes node {name}")
            await self._remove(schema.NODES, name, None, "")

    async def _create(self) -> None:
        kind = self._random.choice(KINDS)
        if len(await self._all(kind)) >= MOST.get(kind, 2):
            return
        self._numbers += 1
        name = f"{kind.kind.lower()}-{self._numbers}"
        self._trace.note(f"user creates {name}")
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **self._body(kind, name)}
        namespace = self._random.choice([NAMESPACE, *await self._spaces()]) if self._is_large else NAMESPACE
        await self._api.create(as_documents(kind), body, namespace=namespace)

    def _body(self, kind: Resource, name: str) -> Document:
        labels = {"app": name}
        selector, replicas = {"matchLabels": labels}, self._random.randint(0, 3)
        match kind:
            case schema.DEPLOYMENTS:
                return {"spec": {"replicas": replicas, "selector": selector, "template": self._template(labels)}}
            case schema.REPLICA_SETS:
                return {"spec": {"replicas": replicas, "selector": selector, "template": self._template(labels)}}
            case schema.STATEFUL_SETS:
                policy = self._random.choice(("OrderedReady", "Parallel"))
                spec = {"replicas": replicas, "selector": selector, "template": self._template(labels)}
                return {"spec": {**spec, "serviceName": name, "podManagementPolicy": policy}}
            case schema.DAEMON_SETS:
                return {"spec": {"selector": selector, "template": self._template(labels)}}
            case schema.JOBS:
                return {"spec": self._job()}
            case schema.CRON_JOBS:
                policy = self._random.choice(("Allow", "Forbid", "Replace"))
                template = {"spec": self._job()}
                return {"spec": {"schedule": "* * * * *", "concurrencyPolicy": policy, "jobTemplate": template}}
            case schema.PODS:
                is_ending = self._random.random() < 0.4
                return self._template(labels, ENDING_RUNS if is_ending else UNSTABLE_RUNS)
            case schema.CONFIG_MAPS:
                return {"data": {"number": str(self._random.randint(0, 9))}}
            case schema.SERVICES:
                return {"spec": {"selector": {"app": self._someone()}, "ports": [{"port": 80}]}}
            case _:
                return {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": self._someone()}}}}

    def _someone(self) -> str:
        kind = self._random.choice(WORKLOADS[:3]).kind.lower()
        return f"{kind}-{self._random.randint(1, self._numbers + 1)}"

    def _job(self) -> Document:
        pod = self._template({}, ENDING_RUNS)
        spec: Document = {"template": pod, "backoffLimit": self._random.randint(0, 3)}
        spec["completions"] = spec["parallelism"] = self._random.randint(1, 3)
        spec["completionMode"] = self._random.choice(("NonIndexed", "Indexed"))
        if self._random.random() < 0.3:
            spec["ttlSecondsAfterFinished"] = 20
        if self._random.random() < 0.2:
            spec["activeDeadlineSeconds"] = 30
        return spec

    def _template(self, labels: Document, runs: Sequence[Document] = RUNS) -> Document:
        """The metadata and spec of pods: what their containers do, and how they are stopped."""
        containers: list[Document] = []
        annotations, is_ending = {}, runs is ENDING_RUNS
        for name in ("main", "side")[: self._random.choice((1, 1, 2))]:
            annotations[ANNOTATION + name] = json.dumps(self._random.choice(runs))
            containers.append({"name": name, "image": f"example/{self._random.randint(1, 3)}:1"})
        spec: Document = {
            "containers": containers,
            "terminationGracePeriodSeconds": self._random.choice((0, 2, 2, 10, 10, 10)),
        }
        if is_ending:
            spec["restartPolicy"] = self._random.choice(("Never", "OnFailure"))
        if self._random.random() < 0.2:
            first = {"name": "first", "image": "example/1:1"}
            annotations[ANNOTATION + "first"] = json.dumps({"runs": [{"seconds": 1}]})
            spec["initContainers"] = [first]
        if self._random.random() < 0.2 and not is_ending:
            containers[0]["readinessProbe"] = {"httpGet": {"port": 80}, "periodSeconds": 2}
        if self._is_large and self._random.random() < 0.5:
            spec["tolerations"] = TOLERATIONS
        return {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec}

    async def _pick(self, *kinds: Resource) -> tuple[Resource, str, str] | None:
        """A kind, and the name and namespace of an object."""
        kind = self._random.choice(kinds)
        keys = sorted((_name(one), _namespace(one)) for one in await self._all(kind))
        keys = [key for key in keys if key[0] not in BUILT_IN]
        return (kind, *self._random.choice(keys)) if keys else None

    async def _delete(self) -> None:
        picked = await self._pick(*KINDS)
        if picked is not None:
            options = self._random.choice((None, None, None, FOREGROUND, ORPHAN))
            self._trace.note(f"user deletes {picked[1]}")
            kind, name, namespace = picked
            await self._remove(kind, name, options, namespace)

    async def _remove(self, kind: Resource, name: str, options: DeleteOptions | None, namespace: str) -> None:
        await self._api.delete(as_documents(kind), name, namespace=namespace, options=options)

    async def _kill_pod(self) -> None:
        """Delete a pod at once, or evict it."""
        picked = await self._pick(schema.PODS)
        if picked is None:
            return
        kind, name, namespace = picked
        if self._random.random() < 0.4:
            self._trace.note(f"user removes {name} by force")
            await self._remove(kind, name, NO_GRACE, namespace)
        else:
            self._trace.note(f"user evicts {name}")
            body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            await self._api.create(as_documents(schema.POD_EVICTIONS), body, namespace=namespace, name=name)

    async def _change(self) -> None:
        picked = await self._pick(*WORKLOADS, schema.CONFIG_MAPS)
        if picked is None:
            return
        kind, name, namespace = picked
        self._trace.note(f"user changes {name}")
        match kind:
            case schema.CONFIG_MAPS:
                body: Document = {"data": {"number": str(self._random.randint(0, 9))}}
            case schema.JOBS | schema.CRON_JOBS:
                body = {"spec": {"suspend": self._random.random() < 0.3}}
            case schema.DAEMON_SETS:
                body = self._new_image()
            case _:
                scaled = {"spec": {"replicas": self._random.randint(0, 4)}}
                body = self._random.choice((scaled, self._new_image()))
        await self._patch(kind, name, body, namespace)

    def _new_image(self) -> Document:
        container = {"name": "main", "image": f"example/{self._random.randint(1, 9)}:1"}
        return {"spec": {"template": {"spec": {"containers": [container]}}}}

    async def _patch(self, kind: Resource, name: str, body: Document, namespace: str = "") -> None:
        await self._api.patch(as_documents(kind), name, body, namespace=namespace, patch_type=PatchType.STRATEGIC)

    async def _cordon(self) -> None:
        name, is_cordoned = self._random.choice(self._machines).name, self._random.random() < 0.3
        self._trace.note(f"user cordons {name}: {is_cordoned}")
        await self._patch(schema.NODES, name, {"spec": {"unschedulable": is_cordoned}})

    async def _write_manifest(self) -> None:
        name = f"static-{self._random.randint(1, 3)}"
        body = {"apiVersion": "v1", "kind": "Pod", **self._template({"app": name}, UNSTABLE_RUNS)}
        body["metadata"]["name"] = name
        self._trace.note(f"user writes {name}")
        # An editor writes another file first, or writes in place.
        folder = (self._random.choice(self._machines) if self._is_large else self._machines[0]).manifests
        path, text = folder / f"{name}.yaml", json.dumps(body)
        if self._random.random() < 0.5:
            path.write_text(text[: len(text) // 2])
            try:
                await asyncio.sleep(self._random.random() * 0.2)
            finally:
                # The storm may end here, and half a manifest would stay.
                path.write_text(text)
        else:
            (folder / ".new").write_text(text)
            (folder / ".new").replace(path)

    async def _remove_manifest(self) -> None:
        found = [path for machine in self._machines for path in sorted(machine.manifests.glob("*.yaml"))]
        if found:
            path = self._random.choice(found)
            self._trace.note(f"user removes {path.name}")
            path.unlink()


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _namespace(document: Document) -> str:
    return str(document["metadata"].get("namespace", ""))
