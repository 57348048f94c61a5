"""Composes the controllers over one set of informers, and runs them with leader election.

Upstream: cmd/kube-controller-manager/app/controllermanager.go
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial

from pykubelet.aio.clock import Clock
from pykubelet.aio.ids import RandomIds
from pykubelet.aio.tasks import Runner, running, with_ready_event
from pykubelet.api.generated.core import EventSource
from pykubelet.api.scheme import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    CRON_JOBS,
    DEPLOYMENTS,
    ENDPOINTS,
    HORIZONTAL_POD_AUTOSCALERS,
    IP_ADDRESSES,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICE_ACCOUNTS,
    SERVICE_CIDRS,
    SERVICES,
    STATEFUL_SETS,
    VALIDATING_ADMISSION_POLICIES,
)
from pykubelet.app import program
from pykubelet.app.controller_stage import NO_RESOURCES, ControllerStage, ManagedResources
from pykubelet.app.program import Say, read_rest_config, root_ca_pem, tune_garbage_collection
from pykubelet.app.settings import CannotStart, ControllersSettings
from pykubelet.client.informers import Informers
from pykubelet.client.interface import ControllerClient
from pykubelet.client.leaderelection import LeaderElector, identity_of
from pykubelet.client.recorder import Recorder
from pykubelet.client.rest import RestClient, RestClientLimits
from pykubelet.controllers.certificates.approver import CertificateApprover
from pykubelet.controllers.certificates.certificate_controller import CertificateCleaner
from pykubelet.controllers.certificates.rootcacertpublisher import RootCaPublisher
from pykubelet.controllers.certificates.signer import CertificateAuthority, CertificateSigner
from pykubelet.controllers.cronjob.cronjob_controller import CronJobController
from pykubelet.controllers.daemon.daemon_controller import DaemonSetController, daemon_set_informers
from pykubelet.controllers.deployment.deployment_controller import DeploymentController
from pykubelet.controllers.disruption.budget import ScaleFinder
from pykubelet.controllers.disruption.disruption import DisruptionController, StaleDisruptionController
from pykubelet.controllers.endpoint.endpoints_controller import EndpointsController
from pykubelet.controllers.endpointslice.endpointslice_controller import EndpointSliceController
from pykubelet.controllers.endpointslicemirroring.endpointslicemirroring_controller import (
    EndpointSliceMirroringController,
)
from pykubelet.controllers.framework.expectations import CountingExpectations, UidTrackingExpectations
from pykubelet.controllers.framework.pod_control import PodControl
from pykubelet.controllers.framework.work_queue import WorkQueueCollector
from pykubelet.controllers.garbagecollector.garbagecollector import GarbageCollector
from pykubelet.controllers.job.controller import JobController
from pykubelet.controllers.namespace.namespace_controller import NamespaceController
from pykubelet.controllers.nodeipam.range_allocator import SOURCE as IPAM
from pykubelet.controllers.nodeipam.range_allocator import NodeRanges, RangeAllocator
from pykubelet.controllers.nodelifecycle.node_lifecycle_controller import SOURCE as LIFECYCLE
from pykubelet.controllers.nodelifecycle.node_lifecycle_controller import NodeLifecycleController
from pykubelet.controllers.persistentvolume.volume_controllers import volume_controllers
from pykubelet.controllers.podautoscaler.horizontal import HorizontalController
from pykubelet.controllers.podgc.gc_controller import PodGCController
from pykubelet.controllers.replicaset.replica_set import ReplicaSetController
from pykubelet.controllers.replication.replication_controller import ReplicationManager
from pykubelet.controllers.resourcequota.resource_quota_controller import ResourceQuotaController
from pykubelet.controllers.serviceaccount.serviceaccounts_controller import ServiceAccountsController
from pykubelet.controllers.servicecidrs.servicecidrs_controller import ServiceCidrController
from pykubelet.controllers.statefulset.stateful_set import StatefulSetController, stateful_set_informers
from pykubelet.controllers.tainteviction.taint_eviction import SOURCE as EVICTION
from pykubelet.controllers.tainteviction.taint_eviction import TaintEvictionController
from pykubelet.controllers.ttlafterfinished.ttlafterfinished_controller import TtlAfterFinishedController
from pykubelet.controllers.validatingadmissionpolicystatus.controller import PolicyStatusController
from pykubelet.scheduler.schedule_one import SCHEDULER_NAME, Scheduler

NAMESPACE = "namespace"
"""Our own API server does not need this controller: it removes namespaces itself when they are empty."""
LEASE = ("kube-system", "pykubelet-controllers")
AT_ONCE = 32
"""The maximum of concurrent requests: a controller that creates 500 pods must not open 500 connections."""
_ROOT_CA = "root-ca"


def _replicaset(stage: ControllerStage) -> None:
    recorder = stage.recorder("replicaset-controller")
    controller = ReplicaSetController(
        client=stage.client,
        pod_control=PodControl(client=stage.client, recorder=recorder),
        pods=stage.informers.pods,
        sets=stage.informers.objects(REPLICA_SETS),
        expectations=UidTrackingExpectations(),
        clock=stage.clock,
    )
    stage.add("replicaset", controller, queue=controller.queue)


def _replication_controller(stage: ControllerStage) -> None:
    controller = ReplicationManager(
        client=stage.client,
        pod_control=PodControl(client=stage.client, recorder=stage.recorder("replication-controller")),
        pods=stage.informers.pods,
        sets=stage.informers.objects(REPLICATION_CONTROLLERS),
        expectations=UidTrackingExpectations(),
        clock=stage.clock,
    )
    stage.add("replicationcontroller", controller, queue=controller.queue)


def _deployment(stage: ControllerStage) -> None:
    controller = DeploymentController(
        client=stage.client,
        recorder=stage.recorder("deployment-controller"),
        clock=stage.clock,
        deployments=stage.informers.objects(DEPLOYMENTS),
        sets=stage.informers.objects(REPLICA_SETS),
        pods=stage.informers.pods,
    )
    stage.add("deployment", controller, queue=controller.queue)


def _statefulset(stage: ControllerStage) -> None:
    controller = StatefulSetController(
        client=stage.client,
        recorder=stage.recorder("statefulset-controller"),
        view=stateful_set_informers(stage.informers),
        clock=stage.clock,
    )
    stage.add("statefulset", controller, queue=controller.queue)


def _daemonset(stage: ControllerStage) -> None:
    recorder = stage.recorder("daemonset-controller")
    controller = DaemonSetController(
        client=stage.client,
        pod_control=PodControl(client=stage.client, recorder=recorder),
        recorder=recorder,
        view=daemon_set_informers(stage.informers),
        expectations=CountingExpectations(),
        clock=stage.clock,
    )
    stage.add("daemonset", controller, queue=controller.queue)


def _job(stage: ControllerStage) -> None:
    recorder = stage.recorder("job-controller")
    controller = JobController(
        client=stage.client,
        pod_control=PodControl(client=stage.client, recorder=recorder),
        recorder=recorder,
        pods=stage.informers.pods,
        jobs=stage.informers.objects(JOBS),
        clock=stage.clock,
    )
    stage.add("job", controller, queue=controller.queue)
    stage.work("job-orphans", controller.orphans.process_next, queue=controller.orphans.queue, workers=1)


def _cronjob(stage: ControllerStage) -> None:
    recorder = stage.recorder("cronjob-controller")
    crons, jobs = stage.informers.objects(CRON_JOBS), stage.informers.objects(JOBS)
    controller = CronJobController(client=stage.client, recorder=recorder, crons=crons, jobs=jobs, clock=stage.clock)
    stage.add("cronjob", controller, queue=controller.queue)


def _policy_status(stage: ControllerStage) -> None:
    policies = stage.informers.objects(VALIDATING_ADMISSION_POLICIES)
    controller = PolicyStatusController(client=stage.client, policies=policies)
    stage.add("validatingadmissionpolicy-status", controller, queue=controller.queue)


def _ttl_after_finished(stage: ControllerStage) -> None:
    jobs = stage.informers.objects(JOBS)
    controller = TtlAfterFinishedController(client=stage.client, jobs=jobs, clock=stage.clock)
    stage.add("ttl-after-finished", controller, queue=controller.queue)


def _scheduler(stage: ControllerStage) -> None:
    recorder, pods = stage.recorder(SCHEDULER_NAME), stage.informers.pods
    budgets = stage.informers.objects(POD_DISRUPTION_BUDGETS)
    stage.add(
        "scheduler", Scheduler(client=stage.client, recorder=recorder, pods=pods, budgets=budgets, clock=stage.clock)
    )


def _node_lifecycle(stage: ControllerStage) -> None:
    by_node = stage.on_nodes()
    lifecycle = NodeLifecycleController(
        client=stage.client,
        recorder=stage.recorder(LIFECYCLE),
        leases=stage.informers.objects(LEASES),
        pods=stage.informers.pods,
        pods_by_node=by_node,
        clock=stage.clock,
    )
    lifecycle.listen(stage.informers)
    stage.work("node-lifecycle", lifecycle.monitor_next, workers=1)
    stage.work("node-taints", lifecycle.taint_next, queue=lifecycle.taint_queue)
    stage.work("pods-of-lost-nodes", lifecycle.mark_next, queue=lifecycle.mark_queue)
    eviction = TaintEvictionController(
        client=stage.client,
        recorder=stage.recorder(EVICTION),
        pods=stage.informers.pods,
        pods_by_node=by_node,
        clock=stage.clock,
    )
    stage.add("taint-eviction", eviction, queue=eviction.queue)


def _node_ipam(stage: ControllerStage, ranges: NodeRanges) -> None:
    nodes, recorder = stage.informers.objects(NODES), stage.recorder(IPAM)
    ipam = RangeAllocator(client=stage.client, recorder=recorder, nodes=nodes, ranges=ranges)
    stage.add("node-ipam", ipam, queue=ipam.queue)


def _pod_gc(stage: ControllerStage) -> None:
    collector = PodGCController(client=stage.client, pods_by_node=stage.on_nodes(), clock=stage.clock)
    stage.add("pod-gc", collector, workers=1)


def _garbage(stage: ControllerStage) -> None:
    recorder = stage.recorder("garbage-collector-controller")
    collector = GarbageCollector(client=stage.client, recorder=recorder, clock=stage.clock)
    stage.counts.add("garbage_collector_attempt_to_delete", collector.attempt_to_delete)
    stage.counts.add("garbage_collector_attempt_to_orphan", collector.attempt_to_orphan)
    stage.runners["garbage"] = with_ready_event(collector.run)


def _endpoints(stage: ControllerStage) -> None:
    controller = EndpointsController(
        client=stage.client,
        recorder=stage.recorder("endpoint-controller"),
        services=stage.informers.objects(SERVICES),
        service_pods=stage.of_services(),
        endpoints=stage.informers.objects(ENDPOINTS),
    )
    stage.add("endpoint", controller, queue=controller.queue)


def _endpoint_slices(stage: ControllerStage) -> None:
    controller = EndpointSliceController(
        client=stage.client,
        recorder=stage.recorder("endpoint-slice-controller"),
        services=stage.informers.objects(SERVICES),
        service_pods=stage.of_services(),
        nodes=stage.informers.objects(NODES),
    )
    stage.add("endpointslice", controller, queue=controller.queue)


def _endpoint_slice_mirroring(stage: ControllerStage) -> None:
    controller = EndpointSliceMirroringController(
        client=stage.client,
        recorder=stage.recorder("endpoint-slice-mirroring-controller"),
        services=stage.informers.objects(SERVICES),
        endpoints=stage.informers.objects(ENDPOINTS),
    )
    stage.add("endpointslicemirroring", controller, queue=controller.queue)


def _service_cidrs(stage: ControllerStage) -> None:
    controller = ServiceCidrController(
        client=stage.client,
        recorder=stage.recorder("service-cidr-controller"),
        ranges=stage.informers.objects(SERVICE_CIDRS),
        addresses=stage.informers.objects(IP_ADDRESSES),
        clock=stage.clock,
    )
    stage.add("servicecidrs", controller, queue=controller.queue)


def _disruption(stage: ControllerStage) -> None:
    scales = ScaleFinder(
        client=stage.client,
        deployments=stage.informers.objects(DEPLOYMENTS),
        replica_sets=stage.informers.objects(REPLICA_SETS),
        stateful_sets=stage.informers.objects(STATEFUL_SETS),
    )
    controller = DisruptionController(
        client=stage.client,
        recorder=stage.recorder("controllermanager"),
        clock=stage.clock,
        budgets=stage.informers.objects(POD_DISRUPTION_BUDGETS),
        pods=stage.by_label(),
        scales=scales,
    )
    stage.add("disruption", controller, queue=controller.queue)
    stale = StaleDisruptionController(client=stage.client, pods=stage.informers.pods, clock=stage.clock)
    stage.add("stale-disruptions", stale, queue=stale.queue, workers=1)


def _horizontal_pod_autoscaler(stage: ControllerStage) -> None:
    controller = HorizontalController(
        client=stage.client,
        recorder=stage.recorder("horizontal-pod-autoscaler"),
        clock=stage.clock,
        autoscalers=stage.informers.objects(HORIZONTAL_POD_AUTOSCALERS),
        pods=stage.by_label(),
    )
    stage.add("horizontal-pod-autoscaler", controller, queue=controller.queue)


def _service_accounts(stage: ControllerStage) -> None:
    namespaces, accounts = stage.informers.objects(NAMESPACES), stage.informers.objects(SERVICE_ACCOUNTS)
    controller = ServiceAccountsController(client=stage.client, namespaces=namespaces, accounts=accounts)
    stage.add("serviceaccount", controller, queue=controller.queue)


def _resource_quotas(stage: ControllerStage) -> None:
    controller = ResourceQuotaController(client=stage.client, clock=stage.clock)
    stage.add("resourcequota", controller, queue=controller.queue)
    stage.runners["resource quotas"] = with_ready_event(controller.run)


def _root_ca(stage: ControllerStage) -> None:
    maps = stage.informers.objects(CONFIG_MAPS)
    publisher = RootCaPublisher(client=stage.client, maps=maps, root_ca=stage.root_ca)
    stage.add("root-ca", publisher, queue=publisher.queue)


def _namespace(stage: ControllerStage) -> None:
    controller = NamespaceController(client=stage.client, clock=stage.clock)
    stage.add(NAMESPACE, controller, queue=controller.queue)


def _persistent_volumes(stage: ControllerStage) -> None:
    made = volume_controllers(
        client=stage.client,
        recorder_of=stage.recorder,
        informers=stage.informers,
        local_volumes=stage.local_volumes,
    )
    for name, controller in made.items():
        stage.add(name, controller, queue=controller.queue)


def _csr_approving(stage: ControllerStage) -> None:
    requests = stage.informers.objects(CERTIFICATE_SIGNING_REQUESTS)
    stage.add("csrapproving", CertificateApprover(client=stage.client, requests=requests))


def _csr_signing(stage: ControllerStage) -> None:
    if stage.authority is not None:
        requests = stage.informers.objects(CERTIFICATE_SIGNING_REQUESTS)
        signer = CertificateSigner(client=stage.client, requests=requests, authority=stage.authority, clock=stage.clock)
        stage.add("csrsigning", signer)


def _csr_cleaner(stage: ControllerStage) -> None:
    requests = stage.informers.objects(CERTIFICATE_SIGNING_REQUESTS)
    stage.add("csrcleaner", CertificateCleaner(client=stage.client, requests=requests, clock=stage.clock), workers=1)


CONTROLLERS: dict[str, Callable[[ControllerStage], None]] = {
    "replicaset": _replicaset,
    "replicationcontroller": _replication_controller,
    "deployment": _deployment,
    "statefulset": _statefulset,
    "daemonset": _daemonset,
    "job": _job,
    "cronjob": _cronjob,
    "ttl-after-finished": _ttl_after_finished,
    "validatingadmissionpolicy-status": _policy_status,
    "scheduler": _scheduler,
    "node-lifecycle": _node_lifecycle,
    "pod-gc": _pod_gc,
    "garbage": _garbage,
    "endpoint": _endpoints,
    "endpointslice": _endpoint_slices,
    "endpointslicemirroring": _endpoint_slice_mirroring,
    "servicecidrs": _service_cidrs,
    "disruption": _disruption,
    "horizontal-pod-autoscaler": _horizontal_pod_autoscaler,
    "serviceaccount": _service_accounts,
    "resourcequota": _resource_quotas,
    "root-ca": _root_ca,
    NAMESPACE: _namespace,
    "persistentvolume": _persistent_volumes,
    "csrapproving": _csr_approving,
    "csrsigning": _csr_signing,
    "csrcleaner": _csr_cleaner,
}
"""Every controller by its name in `--controllers`."""


@asynccontextmanager
async def controllers(
    *,
    client: ControllerClient,
    clock: Clock,
    root_ca: str,
    authority: CertificateAuthority | None = None,
    names: Collection[str] = tuple(CONTROLLERS),
    counts: WorkQueueCollector | None = None,
    listeners: Collection[Callable[[Informers], None]] = (),
    resources: ManagedResources = NO_RESOURCES,
) -> AsyncIterator[asyncio.Event]:
    """Run controllers for the duration of the context; sets the event once the informers have synced.

    `root_ca` (PEM) is published to pods to verify the API server. Without `authority` no certificate is signed.
    `counts` collects the metrics of the queues; `listeners` subscribe to the same informers.
    """
    stage = ControllerStage(
        client=client,
        clock=clock,
        root_ca=root_ca,
        authority=authority,
        informers=Informers(client=client, clock=clock),
        counts=counts or WorkQueueCollector(),
        local_volumes=resources.local_volumes,
    )
    for listen in listeners:
        listen(stage.informers)
    for name in names:
        CONTROLLERS[name](stage)
    if resources.node_ranges is not None:
        _node_ipam(stage, resources.node_ranges)
    stage.runners["informers"] = with_ready_event(stage.informers.run, stage.informed)
    async with running(stage.runners):
        yield stage.informed


# Signing needs the key of the cluster's authority, which no kubeconfig has.
_KNOWN = tuple(name for name in CONTROLLERS if name != "csrsigning")


def run(settings: ControllersSettings, *, say: Say) -> None:
    """Run controllers until SIGINT or SIGTERM; CannotStart if that is impossible."""

    async def main(clock: Clock, stop: asyncio.Event) -> None:
        access = read_rest_config(settings.kubeconfig, clock)
        root_ca = root_ca_pem(access)
        names = _chosen(settings.names, has_root_ca=bool(root_ca))
        limits = RestClientLimits(at_once=AT_ONCE)
        # The lease has its own client, so that a busy controller does not lose it.
        async with RestClient(access, clock=clock, limits=limits) as client, RestClient(access, clock=clock) as aside:

            async def work() -> None:
                ranges = None if settings.cluster_cidr is None else NodeRanges(settings.cluster_cidr)
                resources = ManagedResources(node_ranges=ranges)
                made = controllers(client=client, clock=clock, root_ca=root_ca, names=names, resources=resources)
                async with made as informed:
                    await informed.wait()
                    say("ready controllers")
                    tune_garbage_collection()
                    await stop.wait()

            runners = _elected(work, aside, clock) if settings.leader_elect else {"controllers": work}
            async with running(runners):
                await stop.wait()

    program.run(main)


def _elected(work: Callable[[], Awaitable[None]], client: ControllerClient, clock: Clock) -> dict[str, Runner]:
    """Run while holding the lease; after losing it, start again as a candidate."""
    recorder = Recorder(sink=client, source=EventSource(component=LEASE[1]), clock=clock)
    identity = identity_of(socket.gethostname(), RandomIds().uid())
    elector = LeaderElector(client=client, recorder=recorder, clock=clock, lease=LEASE, identity=identity)
    return {"events of the election": with_ready_event(recorder.run), "controllers": partial(elector.run, work)}


def _chosen(names: tuple[str, ...], *, has_root_ca: bool) -> tuple[str, ...]:
    """The selected controllers; all if none are named."""
    if unknown := [name for name in names if name not in _KNOWN]:
        raise CannotStart(f"unknown controllers {', '.join(unknown)}; known are {', '.join(_KNOWN)}")
    if _ROOT_CA in names and not has_root_ca:
        raise CannotStart(f"{_ROOT_CA} has nothing to publish: the kubeconfig names no certificate authority")
    return tuple(dict.fromkeys(names)) or tuple(name for name in _KNOWN if has_root_ca or name != _ROOT_CA)
