"""The collaborators of the pod syncs, which record their calls."""

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from pod_workers_rig import Events
from pykubelet.api.generated.core import Pod, PodStatus, Secret
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.explain.trail import PodTrails
from pykubelet.kubelet.kuberuntime.pod_actions import SyncResult
from pykubelet.kubelet.pod_workers.sync import PodEnvironment, PodSyncer
from pykubelet.runtimes.protocol import RuntimePod
from pykubelet.testing.virtual_time import ManualClock


class World:
    """All collaborators of a pod sync: records each call, and raises the error that a test has set for it."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.errors: dict[str, Exception] = {}
        self.results: dict[str, tuple[SyncResult, ...]] = {}
        self.status = PodStatus(phase="Pending")
        self.statuses: list[PodStatus] = []
        self.reasons: list[Sequence[SyncResult]] = []
        self.left: RuntimePod | None = None
        self.pruned: list[RuntimePod] = []
        self.missing: list[str] = []
        self.clock, self.events = ManualClock(), Events()
        self.trail = PodTrails(clock=self.clock)
        played, containers = cast("Any", self), cast("Any", Containers(self))
        self.manager = self
        environment = PodEnvironment(
            health=played, references=played, mirrors=played, volumes=played, termination_messages=played
        )
        self.syncs = PodSyncer(
            reports=played,
            environment=environment,
            containers=containers,
            probes=played,
            recorder=self.events,
            trail=self.trail,
            clock=self.clock,
        )

    def step(self, name: str) -> None:
        self.steps.append(name)
        if name in self.errors:
            raise self.errors[name]

    def generate(self, pod: Pod, observed: RuntimePod, *, is_terminal: bool) -> PodStatus:
        addresses = [ip for sandbox in observed.sandboxes for ip in sandbox.ips]
        return replace(self.status, message=f"terminal={is_terminal} {' '.join(addresses)}".strip())

    def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        self.statuses.append(status)
        self.step("status")

    def pod_status(self, uid: PodUid) -> PodStatus | None:
        return self.statuses[-1]

    def terminate_pod(self, pod: Pod) -> None:
        self.step("final status")

    def network_error(self) -> str:
        return str(self.errors.get("network", ""))

    def register_pod(self, pod: Pod) -> None:
        self.step("register")

    def unregister_pod(self, pod: Pod) -> None:
        self.step("unregister")

    async def reconcile(self, pod: Pod) -> None:
        self.step("mirror")

    async def make_directories(self, pod: Pod) -> None:
        self.step("directories")

    async def mount(self, pod: Pod) -> None:
        self.step("mount")

    def stop_updating(self, pod: Pod) -> None:
        self.step("leave volumes")

    async def unmount(self, pod: Pod) -> None:
        self.step("unmount")

    async def pull_secrets(self, pod: Pod) -> tuple[Sequence[Secret], Sequence[str]]:
        self.step("secrets")
        return (), self.missing

    async def fill(self, pod: Pod, observed: RuntimePod) -> RuntimePod:
        return observed

    def shown_status(self, pod: Pod) -> PodStatus:
        return pod.status

    def add_pod(self, pod: Pod, shown: PodStatus) -> None:
        self.step("probe")

    def stop_liveness_and_startup(self, pod: Pod) -> None:
        self.step("probe readiness only")

    def remove_pod(self, pod: Pod) -> None:
        self.step("probe no more")

    def note_start_results(self, uid: PodUid, results: Sequence[SyncResult]) -> None:
        self.reasons.append(results)


class Containers:
    """The containers of the world's pod."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def sync_pod(self, pod: Pod, observed: RuntimePod, secrets: Sequence[Secret]) -> Sequence[SyncResult]:
        self.world.step("containers")
        return self.world.results.get("containers", ())

    async def kill_pod(
        self, pod: Pod | None, observed: RuntimePod, *, grace_seconds: int | None = None
    ) -> Sequence[SyncResult]:
        self.world.step(f"kill in {grace_seconds}")
        return self.world.results.get("kill", ())

    async def inspect(self, uid: PodUid) -> RuntimePod | None:
        self.world.step("inspect")
        return self.world.left

    async def prune(self, observed: RuntimePod) -> None:
        self.world.pruned.append(observed)
