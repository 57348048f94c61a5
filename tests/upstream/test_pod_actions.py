"""Cases 6.24-38 to -43: the actions that one sync computes for a pod, also compared with those of Kubernetes 1.34.11.

The pods have three containers, and three init containers if any, unless a case changes that.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from pykubelet.api.generated.core import Container, Pod, Probe
from pykubelet.api.pods import PodUid
from pykubelet.api.serializer import Document, from_document
from pykubelet.kubelet.kuberuntime.pod_actions import (
    KillReason,
    PodActions,
    ProbeResults,
    compute_pod_actions,
    container_hash,
)
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod, Sandbox
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

VECTORS = json.loads((Path(__file__).parent / "vectors/pod-actions.json").read_text())["cases"]
NO_PROBES = ProbeResults()
RUNNING, EXITED, CREATED, UNKNOWN = (
    ContainerState.RUNNING,
    ContainerState.EXITED,
    ContainerState.CREATED,
    ContainerState.UNKNOWN,
)


@pytest.mark.parametrize("case", [pytest.param(case, id=str(case["index"])) for case in VECTORS])
def test_actions_are_upstreams(case: Document) -> None:
    wanted = from_document(case["pod"], Pod)
    actions = compute_pod_actions(wanted, _observed(case), _probes(case))
    assert _shown(wanted, actions) == case["actions"]


def _observed(case: Document) -> RuntimePod:
    wanted = from_document(case["pod"], Pod)
    spec = wanted.spec
    hashes = {one.name: container_hash(one) for one in (*spec.containers, *spec.init_containers)}
    return RuntimePod(
        uid=PodUid(wanted.metadata.uid),
        namespace=wanted.metadata.namespace,
        name=wanted.metadata.name,
        sandboxes=tuple(
            Sandbox(
                id=one["id"],
                attempt=one["attempt"],
                is_ready=one["ready"],
                created_at=EPOCH,
                ips=(one["ip"],) if one["ip"] else (),
                host_network=one["network_mode"] == "host",
            )
            for one in case["runtime"]["sandboxes"]
        ),
        containers=tuple(
            RuntimeContainer(
                id=one["id"],
                name=one["name"],
                state=ContainerState(one["state"]),
                hash=hashes.get(one["name"], "") if one["hash_matches"] else "other",
                created_at=EPOCH,
                exit_code=one.get("exit_code", 0),
            )
            for one in case["runtime"]["containers"]
        ),
    )


def _probes(case: Document) -> ProbeResults:
    def passed(kind: str) -> dict[str, bool]:
        results = {one["id"]: one.get(kind) for one in case["runtime"]["containers"]}
        return {id_: result == "Success" for id_, result in results.items() if result in {"Success", "Failure"}}

    return ProbeResults(liveness=passed("liveness"), startup=passed("startup"))


def _shown(wanted: Pod, actions: PodActions) -> Document:
    def listed(started: Sequence[Any], spec: Sequence[Any]) -> list[Document]:
        return [{"index": spec.index(one), "name": one.name} for one in started]

    kills = [
        {"id": kill.container_id, "message": kill.message, "name": kill.container.name, "reason": kill.reason}
        for kill in sorted(actions.kills, key=lambda kill: kill.container_id)
    ]
    return {
        "attempt": actions.attempt,
        "containers_to_kill": kills,
        "containers_to_start": listed(actions.start, wanted.spec.containers),
        "create_sandbox": actions.create_sandbox,
        "ephemeral_containers_to_start": listed(actions.start_ephemeral, wanted.spec.ephemeral_containers),
        "init_containers_to_start": listed(actions.start_init, wanted.spec.init_containers),
        "kill_pod": actions.kill_pod,
        "sandbox_id": actions.sandbox_id,
    }


NAMES, INITS = ("c0", "c1", "c2"), ("i0", "i1", "i2")


@dataclass(frozen=True, slots=True)
class Scene:
    """A pod and its state in the runtime, which a case can alter."""

    pod: Pod
    observed: RuntimePod
    probes: ProbeResults = NO_PROBES

    def but(self, name: str, **fields: Any) -> "Scene":
        """Return the scene with other fields of one container."""
        containers = tuple(replace(one, **fields) if one.name == name else one for one in self.observed.containers)
        return replace(self, observed=replace(self.observed, containers=containers))

    def only(self, *names: str) -> "Scene":
        """Return the scene with these containers only."""
        containers = tuple(one for one in self.observed.containers if one.name in names)
        return replace(self, observed=replace(self.observed, containers=containers))

    def sandbox(self, **fields: Any) -> "Scene":
        """Return the scene with other fields of the sandbox."""
        return replace(self, observed=replace(self.observed, sandboxes=(replace(SANDBOX, **fields),)))

    def policy(self, policy: str) -> "Scene":
        """Return the scene with another restart policy."""
        return replace(self, pod=with_fields(self.pod, spec=with_fields(self.pod.spec, restart_policy=policy)))

    def failing(self, kind: str, name: str) -> "Scene":
        """Return the scene with a failing probe of one container."""
        return replace(self, probes=replace(self.probes, **{kind: {**getattr(self.probes, kind), name: False}}))

    def outcome(self) -> str:
        """The actions in short: K kills the pod, S creates a sandbox; then killed (-) and started (+) containers."""
        actions = compute_pod_actions(self.pod, self.observed, self.probes)
        head = ("K" if actions.kill_pod else "") + (f"S{actions.attempt}" if actions.create_sandbox else "")
        started = (*actions.start_init, *actions.start)
        killed = sorted(kill.container.name for kill in actions.kills)
        return " ".join(
            part for part in (head, *(f"-{n}" for n in killed), *(f"+{one.name}" for one in started)) if part
        )


SANDBOX = Sandbox(id="sandbox", created_at=EPOCH, ips=("10.0.0.1",))
NEW = RuntimePod(uid=PodUid("uid-default-web"), namespace="default", name="web")


def _container(spec: Container, state: ContainerState) -> RuntimeContainer:
    return RuntimeContainer(id=spec.name, name=spec.name, state=state, hash=container_hash(spec), created_at=EPOCH)


def _scene(inits: Sequence[Container] = (), init_state: ContainerState = EXITED) -> Scene:
    """Three containers, which run unless there are init containers."""
    wanted = pod(containers=[container(name) for name in NAMES], init_containers=tuple(inits), restart_policy="Always")
    first = inits or wanted.spec.containers
    containers = tuple(_container(one, init_state if inits else RUNNING) for one in first)
    return Scene(wanted, replace(NEW, sandboxes=(SANDBOX,), containers=containers))


GOOD = _scene()
EXITS = GOOD.but("c0", state=EXITED, exit_code=0).but("c1", state=EXITED, exit_code=111)
DEAD = GOOD.but("c0", state=EXITED).but("c1", state=EXITED, exit_code=1).but("c2", state=EXITED, exit_code=1)
DONE = DEAD.but("c1", exit_code=0).but("c2", exit_code=0)
NOTHING = replace(GOOD, observed=NEW)
START_ALL = "+c0 +c1 +c2"


@pytest.mark.case("6.24-38 all good: nothing; a new pod: a sandbox and all containers, attempt 0")
def test_plan_starts_everything_of_a_new_pod_and_nothing_of_a_good_one() -> None:
    assert GOOD.outcome() == ""
    assert NOTHING.outcome() == f"KS0 {START_ALL}"


CASES: list[tuple[str, Scene, str]] = [
    ("39 exits 0 and 111, Always", EXITS, "+c0 +c1"),
    ("39 exits 0 and 111, OnFailure", EXITS.policy("OnFailure"), "+c1"),
    ("39 exits 0 and 111, Never", EXITS.policy("Never"), ""),
    ("39 created, OnFailure", GOOD.but("c1", state=CREATED).policy("OnFailure"), "+c1"),
    ("39 created, Never", GOOD.but("c1", state=CREATED).policy("Never"), "+c1"),
    ("39 unknown, Never", GOOD.but("c1", state=UNKNOWN).policy("Never"), "-c1 +c1"),
    ("40 sandbox dead, Always", DEAD.sandbox(is_ready=False), f"KS1 {START_ALL}"),
    ("40 sandbox dead, OnFailure", DEAD.sandbox(is_ready=False).policy("OnFailure"), "KS1 +c1 +c2"),
    ("40 sandbox without an IP", GOOD.sandbox(ips=()), f"KS1 {START_ALL}"),
    ("40 sandbox of another network", GOOD.sandbox(host_network=True), f"KS1 {START_ALL}"),
    ("40 hash changed", GOOD.but("c1", hash="other"), "-c1 +c1"),
    ("40 liveness failed", GOOD.failing("liveness", "c1"), "-c1 +c1"),
    ("40 startup failed", GOOD.failing("startup", "c1"), "-c1 +c1"),
    ("40 liveness failed, Never", GOOD.failing("liveness", "c1").policy("Never"), "-c1"),
    ("40 hash changed, Never", GOOD.but("c1", hash="other").policy("Never"), "-c1 +c1"),
    ("41 sandbox dead, Never, all exited", DEAD.sandbox(is_ready=False, attempt=1).policy("Never"), "K"),
    ("41 sandbox dead, OnFailure, all succeeded", DONE.sandbox(is_ready=False).policy("OnFailure"), "K"),
    ("41 no container", DEAD.only().sandbox(is_ready=False, attempt=2).policy("Never"), f"KS3 {START_ALL}"),
    ("41 all done", DONE.policy("OnFailure"), "K"),
]

PLAIN = _scene([container(name) for name in INITS])
THIRD_FAILED = PLAIN.but("i2", exit_code=137)
THIRD_UNKNOWN = PLAIN.but("i2", state=UNKNOWN)
PLAIN_DEAD = PLAIN.sandbox(is_ready=False)
CASES += [
    ("42 all init containers succeeded", PLAIN, START_ALL),
    ("42 no status", PLAIN.only(), "+i0"),
    ("42 third running", PLAIN.but("i2", state=RUNNING), ""),
    ("42 third failed, Always", THIRD_FAILED, "+i2"),
    ("42 third failed, OnFailure", THIRD_FAILED.policy("OnFailure"), "+i2"),
    ("42 third failed, Never", THIRD_FAILED.policy("Never"), "K"),
    ("42 third out of memory", PLAIN.but("i2", reason="OOMKilled"), "+i2"),
    ("42 third unknown", THIRD_UNKNOWN, "-i2 +i2"),
    ("42 third unknown, Never", THIRD_UNKNOWN.policy("Never"), "K"),
    ("42 third created", PLAIN.but("i2", state=CREATED), "+i2"),
    ("42 only the third known and running", PLAIN.only("i2").but("i2", state=RUNNING), ""),
    ("42 second succeeded", PLAIN.only("i0", "i1"), "+i2"),
    ("42 sandbox dead", PLAIN_DEAD, "KS1 +i0"),
    ("42 sandbox dead, Never, with containers", PLAIN_DEAD.policy("Never"), "K"),
    ("42 sandbox dead, Never, without", PLAIN_DEAD.only().policy("Never"), "KS1 +i0"),
]


def _sidecar(name: str) -> Container:
    probe = Probe(period_seconds=1)
    return container(name, restart_policy="Always", startup_probe=probe, liveness_probe=probe)


SIDECARS = replace(
    _scene([_sidecar(name) for name in INITS], RUNNING), probes=ProbeResults(startup=dict.fromkeys(INITS, True))
)
_REGULAR = tuple(_container(one, RUNNING) for one in SIDECARS.pod.spec.containers)
SIDECARS_LATER = replace(
    SIDECARS, observed=replace(SIDECARS.observed, containers=(*SIDECARS.observed.containers, *_REGULAR))
)
CASES += [
    ("43 all running", SIDECARS, START_ALL),
    ("43 only the first running", SIDECARS.only("i0"), "+i1"),
    ("43 startup of the third not known", replace(SIDECARS, probes=ProbeResults(startup={"i0": True})), ""),
    ("43 startup failed", SIDECARS.failing("startup", "i2"), "-i2 +i2"),
    ("43 liveness failed", SIDECARS.failing("liveness", "i2"), f"-i2 +i2 {START_ALL}"),
    ("43 image changed", SIDECARS.but("i2", hash="other"), f"-i2 +i2 {START_ALL}"),
    ("43 first and third exited", SIDECARS.but("i0", state=EXITED).but("i2", state=EXITED), "+i0 +i2"),
    ("43 first exited", SIDECARS.but("i0", state=EXITED), f"+i0 {START_ALL}"),
    ("43 second gone later", SIDECARS_LATER.only("i0", "i2", *NAMES), "+i1"),
    ("43 second unknown later", SIDECARS_LATER.but("i1", state=UNKNOWN), "-i1 +i1"),
]


@pytest.mark.parametrize(("scene", "outcome"), [pytest.param(*rest, id=f"6.24-{name}") for name, *rest in CASES])
def test_plan_has_the_expected_actions(scene: Scene, outcome: str) -> None:
    assert scene.outcome() == outcome


def _message(change: Callable[[Scene], Scene]) -> tuple[str, KillReason]:
    scene = change(GOOD)
    (kill,) = compute_pod_actions(scene.pod, scene.observed, scene.probes).kills
    return kill.message, kill.reason


@pytest.mark.case("6.24-40 the words and reasons of kills")
def test_kill_has_a_message_and_a_reason() -> None:
    changed = _message(lambda scene: scene.but("c1", hash="other"))
    assert changed == ("Container c1 definition changed, will be restarted", KillReason.OTHER)
    alive = _message(lambda scene: scene.failing("liveness", "c1").policy("Never"))
    assert alive == ("Container c1 failed liveness probe", KillReason.LIVENESS_PROBE)
    started = _message(lambda scene: scene.failing("startup", "c1"))
    assert started == ("Container c1 failed startup probe, will be restarted", KillReason.STARTUP_PROBE)


@pytest.mark.case("6.24-41 kill only, attempt 2")
def test_attempt_grows_although_only_killed() -> None:
    scene = DEAD.sandbox(is_ready=False, attempt=1).policy("Never")
    assert compute_pod_actions(scene.pod, scene.observed, scene.probes).attempt == 2
