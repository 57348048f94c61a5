"""Syncing pods on a simulated runtime, step by step."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.generated.core import (
    Container,
    EphemeralContainer,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
)
from pykubelet.api.pods import PodUid
from pykubelet.kubelet.kuberuntime.manager import KubeRuntimeManager, container_type
from pykubelet.kubelet.kuberuntime.pod_actions import ProbeResults, SyncAction, SyncResult, error_text, retry_at
from pykubelet.runtimes.limits import UnenforcedLimits
from pykubelet.runtimes.protocol import CommandResult, RuntimeFailure
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, ImageBehaviour, SimImages, SimRuntime
from pykubelet.testing.build import container, pod, secret
from pykubelet.testing.virtual_time import EPOCH, VirtualClock
from runtime_rig import Rig

FAILING = LifecycleHandler(exec=ExecAction(command=("false",)))


def scripted(tmp_path: Path, images: SimImages | None = None, **scripts: Behaviour) -> Rig:
    return Rig(tmp_path, sim=SimRuntime(clock=VirtualClock(), scripts=scripts), images=images)


async def test_new_pod_gets_a_sandbox_and_its_containers(tmp_path: Path) -> None:
    """The events are those of the kubelet, about the container concerned."""
    web = pod(containers=(container("a"), container("b")))
    async with Rig(tmp_path).running() as rig:
        results = await rig.sync(web)
        assert error_text(results) == ""
        assert [(step.action, step.target) for step in results] == [
            (SyncAction.KILL_SANDBOX, web.metadata.uid),
            (SyncAction.START_CONTAINER, "a"),
            (SyncAction.START_CONTAINER, "b"),
        ]
        assert await rig.states(web) == {"a": "running", "b": "running"}
        assert rig.events.reasons() == ["Pulling", "Pulled", "Created", "Started"] * 2
        assert rig.events.seen[2:4] == [
            ("Normal", "Created", "Created container: a"),
            ("Normal", "Started", "Started container a"),
        ]
        assert set(rig.events.fields) == {"spec.containers{a}", "spec.containers{b}"}
        assert await rig.sync(web) == ()


async def test_dns_settings_beyond_the_limits_are_an_event(tmp_path: Path) -> None:
    """Once for each sandbox, which gets what fits."""
    async with Rig(tmp_path).running() as rig:
        rig.settings.warnings = ["Nameserver limits were exceeded"]
        await rig.sync(pod())
        await rig.sync(pod())
        assert rig.events.seen.count(("Warning", "DNSConfigForming", "Nameserver limits were exceeded")) == 1


async def test_limits_without_effect_are_an_event(tmp_path: Path) -> None:
    """Once for each sandbox, about the pod."""
    unenforced = UnenforcedLimits(resources=frozenset({"memory"}), advice="run the node as root")
    one = replace(container("main"), resources=ResourceRequirements(limits={"memory": "100Mi"}))
    async with Rig(tmp_path, unenforced=unenforced).running() as rig:
        await rig.sync(pod(containers=(one,)))
        await rig.sync(pod(containers=(one,)))
        told = [one for one in rig.events.seen if one[1] == "ResourceLimitsNotEnforced"]
        assert told == [("Warning", "ResourceLimitsNotEnforced", unenforced.message(pod(containers=(one,))))]


async def test_container_is_made_with_everything_resolved(tmp_path: Path) -> None:
    """Its attempt, image and log directory are set."""
    async with Rig(tmp_path).running() as rig:
        web = pod()
        await rig.sync(web)
        found = (await rig.observed(web)).containers[0]
        assert (found.attempt, found.image, found.image_id[:7]) == (0, "example/image:1", "sha256:")
        directory = tmp_path / "pods" / "default_web_uid-default-web" / "main"
        assert directory.is_dir()


async def test_attempt_goes_on_from_old_logs_when_the_runtime_forgot(tmp_path: Path) -> None:
    """After a reboot no old log is overwritten."""
    directory = tmp_path / "pods" / "default_web_uid-default-web" / "main"
    directory.mkdir(parents=True)
    (directory / "2.log").write_text("")
    async with Rig(tmp_path).running() as rig:
        web = pod()
        await rig.sync(web)
        assert (await rig.observed(web)).containers[0].attempt == 3


async def test_crashing_container_is_held_back_longer_each_time(tmp_path: Path) -> None:
    """The first restart is immediate; the next one shows CrashLoopBackOff and its delay."""
    web = pod(restart_policy="Always")
    async with scripted(tmp_path, main=Behaviour(runs=(ContainerRun(seconds=1, exit_code=1),))).running() as rig:
        await rig.sync(web)
        await asyncio.sleep(2)
        assert error_text(await rig.sync(web)) == ""
        await asyncio.sleep(2)
        held = (await rig.sync(web))[-1]
        message = "back-off 10s restarting failed container=main pod=web_default(uid-default-web)"
        assert (held.reason, held.message) == ("CrashLoopBackOff", message)
        assert rig.events.seen[-1] == (
            "Warning",
            "BackOff",
            "Back-off restarting failed container main in pod web_default(uid-default-web)",
        )
        await rig.sync(web)
        assert rig.events.reasons().count("BackOff") == 1
        at = retry_at((held,))
        assert at is not None
        await asyncio.sleep((at - rig.clock.now()).total_seconds())
        assert error_text(await rig.sync(web)) == ""
        assert [one.attempt for one in (await rig.observed(web)).containers] == [2, 1, 0]


async def test_init_containers_run_one_after_the_other(tmp_path: Path) -> None:
    """Regular containers wait for the last one, and old init containers are pruned."""
    done = Behaviour(runs=(ContainerRun(seconds=1),))
    flaky = Behaviour(
        runs=(ContainerRun(seconds=1, exit_code=1), ContainerRun(seconds=1, exit_code=1), ContainerRun(seconds=1))
    )
    web = pod(init_containers=(container("i1"), container("i2")), restart_policy="Always")
    async with scripted(tmp_path, i1=done, i2=flaky).running() as rig:
        await rig.sync(web)
        assert await rig.states(web) == {"i1": "running"}
        for _ in range(30):
            await asyncio.sleep(5)
            await rig.sync(web)
        assert await rig.states(web) == {"i1": "exited", "i2": "exited", "main": "running"}
        assert [one.name for one in (await rig.observed(web)).containers].count("i2") <= 2


async def test_plain_init_container_that_does_not_start_holds_up_the_rest(tmp_path: Path) -> None:
    web = pod(init_containers=(container("broken"),))
    async with scripted(tmp_path, broken=Behaviour(start_error="no such file")).running() as rig:
        failed = (await rig.sync(web))[-1]
        assert (failed.target, failed.reason, failed.message) == ("broken", "RunContainerError", "no such file")
        assert ("Warning", "Failed", "Error: no such file") in rig.events.seen
        assert await rig.states(web) == {"broken": "exited"}


async def test_sidecar_that_does_not_start_does_not_block_others(tmp_path: Path) -> None:
    """In an initialized pod the other containers are still started."""
    sidecar = container("broken", restart_policy="Always")
    web = pod(containers=(container("a"), container("b")), init_containers=(sidecar,), restart_policy="Always")
    async with Rig(tmp_path).running() as rig:
        for _ in range(2):
            await rig.sync(web)
        uid = PodUid(web.metadata.uid)
        rig.sim.crash(uid, "broken")
        rig.sim.crash(uid, "b")
        rig.images.script("example/image:1", ImageBehaviour(find_error="disk"))
        broken = replace(sidecar, image_pull_policy="Never")
        results = await rig.sync(replace(web, spec=replace(web.spec, init_containers=(broken,))))
        assert [(step.target, step.reason) for step in results] == [("broken", "ImageInspectError"), ("b", "")]


async def test_lost_sandbox_is_made_anew_with_all_in_it(tmp_path: Path) -> None:
    """A SandboxChanged event is emitted and the init containers run again."""
    done = Behaviour(runs=(ContainerRun(seconds=0),))
    web = pod(init_containers=(container("i1"),), restart_policy="Always")
    async with scripted(tmp_path, i1=done).running() as rig:
        for _ in range(2):
            await rig.sync(web)
            await asyncio.sleep(1)
        rig.sim.lose_sandbox(PodUid(web.metadata.uid))
        await rig.sync(web)
        assert ("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.") in rig.events.seen
        observed = await rig.observed(web)
        assert [(one.attempt, one.is_ready) for one in observed.sandboxes] == [(1, True), (0, False)]
        assert [one.name for one in observed.containers] == ["i1", "main"]


async def test_unhealthy_container_is_killed_and_started_again(tmp_path: Path) -> None:
    """The event names the failed liveness probe."""
    web = pod(restart_policy="Always")
    async with Rig(tmp_path).running() as rig:
        await rig.sync(web)
        container_id = (await rig.observed(web)).containers[0].id
        results = await rig.sync(web, ProbeResults(liveness={container_id: False}))
        assert [step.action for step in results] == [SyncAction.KILL_CONTAINER, SyncAction.START_CONTAINER]
        told = "Container main failed liveness probe, will be restarted"
        assert ("Normal", "Killing", told) in rig.events.seen
        assert await rig.states(web) == {"main": "running"}


FAILURES = {
    "image": (
        {"images": SimImages({"example/image:1": ImageBehaviour(pull_error="manifest unknown")})},
        ("ErrImagePull", "manifest unknown"),
        ["Pulling", "Failed", "Failed"],
    ),
    "create": (
        {"main": Behaviour(create_error="no room")},
        ("CreateContainerError", "no room"),
        ["Pulling", "Pulled", "Failed"],
    ),
    "start": (
        {"main": Behaviour(start_error="no such file")},
        ("RunContainerError", "no such file"),
        ["Pulling", "Pulled", "Created", "Failed"],
    ),
}


@pytest.mark.parametrize(("parts", "waiting", "reasons"), FAILURES.values(), ids=FAILURES)
async def test_failed_start_has_upstreams_waiting_reason(
    tmp_path: Path, parts: dict[str, Any], waiting: tuple[str, str], reasons: list[str]
) -> None:
    """Each failing step has its own waiting reason and events."""
    web = pod()
    async with scripted(tmp_path, **parts).running() as rig:
        failed = (await rig.sync(web))[-1]
        assert (failed.reason, failed.message) == waiting
        assert rig.events.reasons() == reasons
        assert rig.events.seen[-1][2] == f"Error: {waiting[0] if waiting[0] == 'ErrImagePull' else waiting[1]}"


async def test_missing_settings_are_a_config_error(tmp_path: Path) -> None:
    """No container is created when a referenced object is missing."""
    web = pod()
    async with Rig(tmp_path).running() as rig:
        rig.settings.failure = RuntimeFailure('configmap "c" not found')
        results = await rig.sync(web)
        told = 'failed to "StartContainer" for "main" with CreateContainerConfigError: "configmap \\"c\\" not found"'
        assert error_text(results) == told
        assert rig.events.seen[-1] == ("Warning", "Failed", 'Error: configmap "c" not found')
        assert (await rig.observed(web)).containers == ()


@pytest.mark.parametrize(
    ("user", "fields", "message"),
    [
        ("0", {}, "container has runAsNonRoot and image will run as root"),
        (
            "nginx",
            {},
            "container has runAsNonRoot and image has non-numeric user (nginx), cannot verify user is non-root",
        ),
        ("1000", {"run_as_user": 0}, "container's runAsUser breaks non-root policy"),
        ("1000", {}, ""),
        ("0", {"run_as_user": 5}, ""),
        (None, {}, ""),
    ],
)
async def test_container_that_must_not_be_root_is_not_started_as_root(
    tmp_path: Path, user: str | None, fields: dict[str, Any], message: str
) -> None:
    """The image's user counts if the pod sets none."""
    main = container(security_context=SecurityContext(**fields))
    web = pod(containers=(main,), security_context=PodSecurityContext(run_as_non_root=True))
    images = SimImages({"example/image:1": ImageBehaviour(user=user)})
    async with scripted(tmp_path, images=images).running() as rig:
        failed = (await rig.sync(web))[-1]
        where = ' (pod: "web_default(uid-default-web)", container: main)'
        assert failed.message == (message + where if message else "")
        assert failed.reason == ("CreateContainerConfigError" if message else "")


async def test_ephemeral_container_needs_its_target(tmp_path: Path) -> None:
    """It fails with a config error while its target container does not exist."""
    async with Rig(tmp_path).running() as rig:
        web = pod()
        await rig.sync(web)
        debug = EphemeralContainer(name="debug", image="tools:1", target_container_name="nobody")
        failed = (await rig.sync(replace(web, spec=replace(web.spec, ephemeral_containers=(debug,)))))[-1]
        assert (failed.reason, failed.message) == (
            "CreateContainerConfigError",
            "unable to find target container nobody",
        )
        debug = replace(debug, target_container_name="main")
        await rig.sync(replace(web, spec=replace(web.spec, ephemeral_containers=(debug,))))
        assert await rig.states(web) == {"main": "running", "debug": "running"}


async def test_failed_sandbox_is_reported(tmp_path: Path) -> None:
    """No container is started without a sandbox."""

    class NoSandboxes(SimRuntime):
        async def create_sandbox(self, request: Any) -> str:
            raise RuntimeFailure("no network")

    async with Rig(tmp_path, sim=NoSandboxes(clock=VirtualClock())).running() as rig:
        failed = (await rig.sync(pod()))[-1]
        assert (failed.action, failed.reason, failed.message) == (
            SyncAction.CREATE_SANDBOX,
            "CreatePodSandboxError",
            "no network",
        )
        assert rig.events.seen == [("Warning", "FailedCreatePodSandBox", "Failed to create pod sandbox: no network")]


async def test_failed_post_start_hook_ends_the_container(tmp_path: Path) -> None:
    """The event omits the output of the hook; the waiting message contains the command."""
    web = pod(containers=(container(lifecycle=Lifecycle(post_start=FAILING)),))
    async with Rig(tmp_path).running() as rig:
        rig.commands.outcome = CommandResult(1, b"secret")
        failed = (await rig.sync(web))[-1]
        assert failed.reason == "PostStartHookError"
        assert failed.message.startswith('Exec lifecycle hook ([false]) for Container "main" in Pod "web_default(')
        assert rig.events.seen[-2:] == [
            ("Warning", "FailedPostStartHook", "PostStartHook failed"),
            ("Normal", "Killing", "FailedPostStartHook"),
        ]
        assert await rig.states(web) == {"main": "exited"}


def stuck(at: str) -> tuple[Pod, dict[str, Any]]:
    """A pod whose start hangs at the given step."""
    hook = Lifecycle(post_start=FAILING)
    scripts: dict[str, dict[str, Any]] = {
        "pull": {"images": SimImages({"example/image:1": ImageBehaviour(pull_seconds=1000)})},
        "create": {"main": Behaviour(hangs_on=("create",))},
        "start": {"main": Behaviour(hangs_on=("start",))},
        "hook": {},
    }
    main: Container = container(lifecycle=hook if at == "hook" else None)
    return pod(containers=(main,), restart_policy="Always"), scripts[at]


@pytest.mark.parametrize("at", ["pull", "create", "start", "hook"])
async def test_cancelled_start_kills_nothing_and_is_not_remembered(tmp_path: Path, at: str) -> None:
    """The next sync finds what was created; an interrupted hook is not a failure."""
    web, parts = stuck(at)
    async with scripted(tmp_path, **parts).running() as rig:
        rig.commands.seconds = 1000
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await rig.sync(web)
        states = {"pull": {}, "create": {}, "start": {"main": "created"}, "hook": {"main": "running"}}
        assert await rig.states(web) == states[at]
        assert not {"Killing", "FailedPostStartHook", "Failed"} & set(rig.events.reasons())
        observed = await rig.observed(web)
        assert rig.backoff.check(web, web.spec.containers[0], observed, EPOCH) is None


@pytest.mark.parametrize("is_init", [True, False], ids=["init container", "container"])
async def test_start_that_a_killed_kubelet_left_in_flight_is_not_repeated(tmp_path: Path, is_init: bool) -> None:
    """Creating the next container while the runtime still starts the last one would let both run."""
    name = "first" if is_init else "main"
    web = pod(init_containers=(container("first"),) if is_init else (), restart_policy="Always")
    slow = Behaviour(start_seconds=5)
    async with scripted(tmp_path, first=slow, main=slow).running() as rig:
        # The runtime goes on when the kubelet is killed in the middle.
        killed = asyncio.create_task(rig.sync(web))
        await asyncio.sleep(2)
        assert await rig.states(web) == {name: "created"}
        failed = (await rig.sync(web))[-1]
        assert (failed.target, failed.reason) == (name, "RunContainerError")
        assert "starts" in failed.message
        await killed
        assert await rig.sync(web) == ()
        assert [(one.name, one.attempt) for one in (await rig.observed(web)).containers] == [(name, 0)]


async def test_container_that_has_started_since_the_sync_began_is_kept(tmp_path: Path) -> None:
    """The image pull before a start takes its time; meanwhile the last start may have succeeded."""
    web = pod(restart_policy="Always")
    images = SimImages({"example/image:1": ImageBehaviour(pull_seconds=10)})
    async with scripted(tmp_path, images).running() as rig:
        old = await rig.created(web)
        syncing = asyncio.create_task(rig.sync(web))
        await asyncio.sleep(5)
        await rig.sim.start(old)
        failed = (await syncing)[-1]
        assert (failed.target, failed.reason) == ("main", "RunContainerError")
        assert [(one.id, one.state) for one in (await rig.observed(web)).containers] == [(old, "running")]


async def test_container_that_was_never_started_makes_room_for_the_next(tmp_path: Path) -> None:
    """It is removed first, so that its start can no longer come."""
    web = pod(restart_policy="Always")
    async with Rig(tmp_path).running() as rig:
        old = await rig.created(web)
        assert error_text(await rig.sync(web)) == ""
        assert [(one.attempt, one.state) for one in (await rig.observed(web)).containers] == [(1, "running")]
        with pytest.raises(RuntimeFailure, match="not found"):
            await rig.sim.start(old)


def test_container_type_is_that_of_its_list_in_the_spec() -> None:
    """A list with other containers does not matter."""
    one = pod(
        init_containers=[container("i1"), container("i2")],
        containers=[container("c1"), container("c2")],
        ephemeral_containers=[EphemeralContainer(name="e1"), EphemeralContainer(name="e2")],
    )
    names = ("i1", "i2", "c1", "c2", "e1", "e2", "unknown")
    init, main, debug = ["init_container"] * 2, ["container"] * 2, ["ephemeral_container"] * 2
    assert [container_type(one, name) for name in names] == [*init, *main, *debug, "container"]


def test_error_text_names_each_failure_once() -> None:
    """All failures are one line, as in the Go kubelet; a retry time is set only if every failure has one."""
    backoff = SyncResult(
        action=SyncAction.START_CONTAINER, target="a", reason="CrashLoopBackOff", message='b"c', retry_at=EPOCH
    )
    fine = SyncResult(action=SyncAction.START_CONTAINER, target="b")
    broken = SyncResult(action=SyncAction.KILL_CONTAINER, target="c", reason="KillContainerError", message="d")
    one = 'failed to "StartContainer" for "a" with CrashLoopBackOff: "b\\"c"'
    two = 'failed to "KillContainer" for "c" with KillContainerError: "d"'
    assert error_text((fine,)) == ""
    assert error_text((fine, backoff, backoff)) == one
    assert error_text((backoff, broken)) == f"[{one}, {two}]"
    assert retry_at((fine,)) is None
    assert retry_at((fine, backoff)) == EPOCH
    assert retry_at((backoff, broken)) is None


async def test_kill_that_fails_keeps_the_rest_from_being_tried(tmp_path: Path) -> None:
    """Two containers of one name must never run at the same time."""

    class Sticky(SimRuntime):
        async def stop(self, id: str, grace_seconds: float) -> None:
            raise RuntimeFailure("stuck")

    web = pod(restart_policy="Always")
    async with Rig(tmp_path, sim=Sticky(clock=VirtualClock())).running() as rig:
        await rig.sync(web)
        container_id = (await rig.observed(web)).containers[0].id
        results = await rig.sync(web, ProbeResults(liveness={container_id: False}))
        assert [(step.action, step.reason) for step in results] == [(SyncAction.KILL_CONTAINER, "KillContainerError")]
        assert len((await rig.observed(web)).containers) == 1


async def test_created_sandbox_missing_from_the_runtime_is_reported(tmp_path: Path) -> None:
    """The runtime creates it but does not report it, so its address is unknown."""

    class Forgetful(SimRuntime):
        async def inspect(self, uid: PodUid) -> None:
            return None

    async with Rig(tmp_path, sim=Forgetful(clock=VirtualClock())).running() as rig:
        failed = (await rig.sync(pod()))[-1]
        told = "Unable to get pod sandbox status: the runtime does not report the sandbox that it created"
        assert failed.reason == "CreatePodSandboxError"
        assert rig.events.seen == [("Warning", "FailedPodSandBoxStatus", told)]


async def test_log_directory_that_cannot_be_made_is_a_config_error(tmp_path: Path) -> None:
    """Here a file is in its place."""
    (tmp_path / "pods").write_text("in the way")
    async with Rig(tmp_path).running() as rig:
        failed = (await rig.sync(pod()))[-1]
        told = "create container log directory for container main failed: Not a directory"
        assert (failed.reason, failed.message) == ("CreateContainerConfigError", told)


async def test_pod_containers_plan_and_do(tmp_path: Path) -> None:
    """Uses pull secrets and liveness results, as the pod workers do."""
    auths = {"auths": {"reg.example": {"username": "me", "password": "secret"}}}
    pull = secret("pull", {".dockerconfigjson": json.dumps(auths).encode()}, type="kubernetes.io/dockerconfigjson")
    images = SimImages({"reg.example/app:1": ImageBehaviour(needs_user="me")})
    web = pod(containers=(container(image="reg.example/app:1"),), restart_policy="Always")
    async with Rig(tmp_path, images=images).running() as rig:
        unhealthy: dict[str, bool] = {}
        containers = KubeRuntimeManager(
            runtime=rig.sim,
            executor=rig.executor,
            killer=rig.killer,
            prune=rig.prune,
            probe_results=ProbeResults(liveness=unhealthy),
        )
        denied = await containers.sync_pod(web, await rig.observed(web), ())
        assert denied[-1].message == "reg.example/app:1: pull access denied"
        await asyncio.sleep(10)
        assert error_text(await containers.sync_pod(web, await rig.observed(web), (pull,))) == ""
        found = await containers.inspect(PodUid(web.metadata.uid))
        assert found is not None
        unhealthy[found.containers[0].id] = False
        await containers.sync_pod(web, found, (pull,))
        assert [one.attempt for one in (await rig.observed(web)).containers] == [1, 0]
        await containers.kill_pod(web, await rig.observed(web), grace_seconds=1)
        assert await rig.states(web) == {"main": "exited"}
        await containers.prune(await rig.observed(web))
        assert [one.attempt for one in (await rig.observed(web)).containers] == [1]
