"""What must be true once faults and users have stopped: every object is as its spec says, and every status is true."""

import asyncio
import os
from collections.abc import Iterator

from pykubelet.api.serializer import Document
from pykubelet.controllers.framework.expectations import Expectations
from simulation.cluster import SimulatedCluster
from simulation.loop import PROGRAM, Program

DELETED = (
    "pods",
    "replicasets.apps",
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
    "controllerrevisions.apps",
)
"""Collections of which nothing may be left."""
ENDED = ("Succeeded", "Failed")
KEPT_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}


class RecordedExpectations:
    """Every expectation that a controller has, with its program. `Expectations` reports here when it is created."""

    def __init__(self) -> None:
        self._all: list[tuple[Program | None, Expectations]] = []
        create = Expectations.__init__

        def created(made: Expectations) -> None:
            create(made)
            self._all.append((PROGRAM.get(), made))

        setattr(Expectations, "__init__", created)  # noqa: B010  a method is not assigned otherwise

    def pending(self, program: Program) -> Iterator[str]:
        """What a program still waits for; an expectation that has expired holds nothing up."""
        now = asyncio.get_running_loop().time()
        for owner, one in self._all:
            if owner is program:
                for key, expected in one._by_key.items():
                    if not expected.fulfilled and not expected.is_expired(now):
                        yield f"{key} still expects {expected}"


class Convergence:
    """Lists what is not yet as it should be."""

    def __init__(self, cluster: SimulatedCluster, expectations: RecordedExpectations) -> None:
        self._cluster, self._truth = cluster, cluster.checks.truth
        self._machines = [*cluster.machines.values()]
        self._expectations = expectations

    def missing(self) -> list[str]:
        """Everything that still has to happen; empty once the cluster has converged."""
        pods = self._truth.objects("pods")
        found = [
            *self._homeless(),
            *self._nodes(),
            *self._pods(pods),
            *self._containers(pods),
            *self._folders(pods),
            *self._owners(),
        ]
        found += [*self._sets(pods), *self._rollouts(), *self._jobs(pods), *self._mirrors(pods)]
        found += [*self._endpoints(pods), *self._expectations.pending(self._cluster.programs["controllers"])]
        return found

    def left_over(self) -> list[str]:
        """Everything that is left when all was deleted."""
        found = [f"{kind}: {_name(one)}" for kind in DELETED for one in self._truth.objects(kind)]
        found += [f"namespace {name}" for name in self._namespaces() - KEPT_NAMESPACES]
        return [*found, *self._containers([]), *self._folders([])]

    def _namespaces(self) -> set[str]:
        return {_name(one) for one in self._truth.objects("namespaces")}

    def _homeless(self) -> Iterator[str]:
        """Objects whose namespace is gone, and namespaces that do not end."""
        known = self._namespaces()
        for key in self._truth.state:
            if key.namespace and key.namespace not in known:
                yield f"{key.collection} {key.name} is in namespace {key.namespace}, which is gone"
        for one in self._truth.objects("namespaces"):
            if one["metadata"].get("deletionTimestamp"):
                yield f"namespace {_name(one)} is terminating: {one['status'].get('conditions')}"

    def _nodes(self) -> Iterator[str]:
        shown = {_name(node) for node in self._truth.objects("nodes")}
        for machine in self._machines:
            if machine.name not in shown:
                yield f"{machine.name} has no Node"
        for node in self._truth.objects("nodes"):
            if _condition(node, "Ready") != "True" or node["spec"].get("taints"):
                yield f"node {_name(node)} is not ready: {node['spec'].get('taints')}"

    def _pods(self, pods: list[Document]) -> Iterator[str]:
        records = self._cluster.containers.all
        for pod in pods:
            phase = pod.get("status", {}).get("phase")
            if pod["metadata"].get("deletionTimestamp"):
                yield f"pod {_name(pod)} is terminating"
            if not pod["spec"].get("nodeName"):
                yield f"pod {_name(pod)} is not scheduled"
            for status in pod.get("status", {}).get("containerStatuses", ()):
                record = records.get(status.get("containerID", "").removeprefix("sim://"))
                state = status.get("state", {})
                if record is None and phase not in ENDED:
                    yield f"pod {_name(pod)} shows no container {status['name']}: {state}"
                if record is not None and record.is_running != ("running" in state):
                    yield f"pod {_name(pod)} shows {status['name']} as {state}, running: {record.is_running}"
                if record is not None and record.attempt != status.get("restartCount", 0):
                    yield f"pod {_name(pod)} shows {status.get('restartCount')} restarts of {record.attempt}"

    def _containers(self, pods: list[Document]) -> Iterator[str]:
        known = {(pod["spec"].get("nodeName"), _uid(pod)) for pod in pods}
        for machine in self._machines:
            for uid, pod in machine.sim._book._entries.items():
                if (machine.name, uid) not in known:
                    yield f"the runtime of {machine.name} has pod {pod.bare.name} {uid}"

    def _folders(self, pods: list[Document]) -> Iterator[str]:
        known = {_uid(pod) for pod in pods}
        for machine in self._machines:
            folder = self._cluster.folder / machine.name / "pods"
            for name in sorted(os.listdir(folder)) if folder.exists() else ():  # noqa: PTH208  names only
                if name not in known:
                    yield f"{machine.name} has a folder of pod {name}"

    def _owners(self) -> Iterator[str]:
        alive = {document["metadata"]["uid"] for _, document in self._truth.state.values()}
        for key, (_, document) in self._truth.state.items():
            owners = document["metadata"].get("ownerReferences") or ()
            if owners and not any(owner["uid"] in alive for owner in owners):
                yield f"{key.collection} {key.name} has lost its owners"

    def _sets(self, pods: list[Document]) -> Iterator[str]:
        for kind in ("replicasets.apps", "statefulsets.apps", "daemonsets.apps"):
            for one in self._truth.objects(kind):
                owned = [pod for pod in pods if _is_owned(pod, one) and pod.get("status", {}).get("phase") not in ENDED]
                ready = sum(_condition(pod, "Ready") == "True" for pod in owned)
                wanted = len(self._machines) if kind == "daemonsets.apps" else one["spec"]["replicas"]
                status = one.get("status", {})
                shown = status.get("numberReady" if kind == "daemonsets.apps" else "readyReplicas", 0)
                if not len(owned) == ready == wanted == shown:
                    yield f"{kind} {_name(one)}: {wanted} wanted, {len(owned)} pods, {ready} ready, {shown} shown"
                if status.get("observedGeneration") != one["metadata"]["generation"]:
                    yield f"{kind} {_name(one)} was not observed"

    def _rollouts(self) -> Iterator[str]:
        for one in self._truth.objects("deployments.apps"):
            status, wanted = one.get("status", {}), one["spec"]["replicas"]
            counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")]
            if counts != [wanted] * 3 or status.get("observedGeneration") != one["metadata"]["generation"]:
                yield f"deployment {_name(one)}: {wanted} wanted, {counts}"
        for one in self._truth.objects("statefulsets.apps"):
            status = one.get("status", {})
            if status.get("currentRevision") != status.get("updateRevision"):
                yield f"statefulset {_name(one)} is not rolled out"
        for one in self._truth.objects("daemonsets.apps"):
            if one.get("status", {}).get("updatedNumberScheduled") != len(self._machines):
                yield f"daemonset {_name(one)} is not rolled out"

    def _jobs(self, pods: list[Document]) -> Iterator[str]:
        for one in self._truth.objects("jobs.batch"):
            is_finished = "True" in (_condition(one, "Complete"), _condition(one, "Failed"))
            active = [pod for pod in pods if _is_owned(pod, one) and pod.get("status", {}).get("phase") not in ENDED]
            if not is_finished and not one["spec"].get("suspend"):
                yield f"job {_name(one)} has not finished"
            elif active:
                yield f"job {_name(one)} has finished, pods run"
            elif _condition(one, "Complete") == "True" and one["status"].get("succeeded") != one["spec"]["completions"]:
                yield f"job {_name(one)} is complete with {one['status'].get('succeeded')}"

    def _mirrors(self, pods: list[Document]) -> Iterator[str]:
        wanted = {f"{path.stem}-{one.name}" for one in self._machines for path in one.manifests.glob("*.yaml")}
        shown = {_name(pod) for pod in pods if _annotation(pod, "mirror")}
        if wanted != shown:
            yield f"static pods: {sorted(wanted)} wanted, {sorted(shown)} shown"

    def _endpoints(self, pods: list[Document]) -> Iterator[str]:
        slices = self._truth.objects("endpointslices.discovery.k8s.io")
        for service in self._truth.objects("services"):
            selector = service["spec"].get("selector") or {}
            if not selector:
                continue
            namespace = service["metadata"]["namespace"]
            near = [pod for pod in pods if pod["metadata"]["namespace"] == namespace]
            chosen = [pod for pod in near if selector.items() <= (pod["metadata"].get("labels") or {}).items()]
            wanted = {pod["status"].get("podIP") for pod in chosen if _condition(pod, "Ready") == "True"}
            shown = {
                address
                for one in slices
                if (one["metadata"].get("labels") or {}).get("kubernetes.io/service-name") == _name(service)
                for endpoint in one.get("endpoints") or ()
                if endpoint["conditions"].get("ready")
                for address in endpoint["addresses"]
            }
            if wanted != shown:
                yield f"service {_name(service)}: {sorted(wanted)} are ready, {sorted(shown)} are shown"


def _uid(pod: Document) -> str:
    """The uid under which the node knows a pod."""
    return _annotation(pod, "hash") if _annotation(pod, "mirror") else str(pod["metadata"]["uid"])


def _annotation(pod: Document, name: str) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(f"kubernetes.io/config.{name}", ""))


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _condition(document: Document, kind: str) -> str:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")


def _is_owned(pod: Document, owner: Document) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(one["uid"] == owner["metadata"]["uid"] and one.get("controller") for one in owners)
