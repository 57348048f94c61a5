"""Configurations of container supervisors, and requests that are refused."""

import signal
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import (
    Capabilities,
    Container,
    Lifecycle,
    PodSecurityContext,
    ResourceRequirements,
    SecurityContext,
    VolumeMount,
)
from pykubelet.runtimes.process.cgroups import CPU, MEMORY, PIDS, AvailableCgroups, plan_cgroups
from pykubelet.runtimes.process.container_config import (
    Account,
    ProcessHost,
    UserNotAllowed,
    container_config,
    dropped_capabilities,
    mounts_of,
    signal_number,
    user_of,
)
from pykubelet.runtimes.process.shim.rootfs import BY_BUBBLEWRAP, BY_ROOT, BY_USER, NO_NAMESPACE
from pykubelet.runtimes.process.state import ContainerConfig, ControlGroup, ProcessUser
from pykubelet.runtimes.protocol import ContainerRequest, Mount, RuntimeFailure
from pykubelet.testing import build

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ACCOUNTS = {0: Account(name="root", gid=0, home="/root"), 1000: Account(name="me", gid=1001, home="/home/me")}
ROOT = ProcessHost(me=ProcessUser(uid=0, gid=0), account=ACCOUNTS.get, way=BY_ROOT)
ME = ProcessHost(me=ProcessUser(uid=1000, gid=1001), account=ACCOUNTS.get, way=BY_USER)


def request(
    *command: str, args: tuple[str, ...] = (), mounts: tuple[Mount, ...] = (), **fields: Any
) -> ContainerRequest:
    pod_fields = fields.pop("pod", {})
    container = Container(name="main", image="example/image:1", command=command, **fields)
    return ContainerRequest(
        pod=build.pod(containers=(container,), **pod_fields),
        sandbox_id="sandbox",
        container=container,
        attempt=1,
        hash="abc",
        image_id="sha256:1",
        command=command,
        args=args,
        environment=(("A", "1"),),
        mounts=mounts,
        log_path="/logs/1.log",
    )


def config(wanted: ContainerRequest, machine: ProcessHost = ROOT) -> ContainerConfig:
    return container_config(wanted, id="id", hostname="web", host=machine, now=NOW)


def test_command_and_arguments_are_what_runs() -> None:
    """There is no image with an entry point, so arguments alone are a command."""
    assert config(request("a", "b", args=("c",))).argv == ("a", "b", "c")
    assert config(request(args=("sleep", "1"))).argv == ("sleep", "1")


def test_environment_has_the_usual_variables() -> None:
    """The container's own variables override them."""
    made = dict(config(request("a", tty=True)).environment)
    assert made == {"PATH": made["PATH"], "HOSTNAME": "web", "HOME": "/root", "TERM": "xterm", "A": "1"}
    assert (
        dict(config(request("a", pod={"security_context": PodSecurityContext(run_as_user=7)})).environment)["HOME"]
        == "/"
    )


def test_secrets_are_not_shown() -> None:
    """The repr, which may be logged, does not contain the environment."""
    assert repr(config(request("a"))) == "ContainerConfig(id)"


def test_host_network_keeps_the_name_of_the_machine() -> None:
    """The hostname belongs to the network namespace."""
    assert config(request("a")).hostname == "web"
    assert config(request("a", pod={"host_network": True})).hostname == ""


@pytest.mark.parametrize(
    ("machine", "wanted", "told"),
    [
        (ROOT, request(), 'container "main" has no command'),
        (ME, request("a", security_context=SecurityContext(run_as_user=7)), "runAsUser is 7"),
        (ME, request("a", security_context=SecurityContext(run_as_group=7)), "runAsGroup is 7"),
        (
            ProcessHost(me=ProcessUser(uid=0, gid=0), account=ACCOUNTS.get, way=BY_USER),
            request("a", security_context=SecurityContext(run_as_user=7)),
            "this node may not mount, so it runs containers as user 0 and group 0 only",
        ),
        (
            ProcessHost(me=ProcessUser(uid=0, gid=0), account=ACCOUNTS.get, way=NO_NAMESPACE),
            request("a", security_context=SecurityContext(read_only_root_filesystem=True)),
            "readOnlyRootFilesystem",
        ),
    ],
    ids=["no command", "other user", "other group", "root in a user namespace", "no lock without namespace"],
)
def test_impossible_request_is_a_config_error(machine: ProcessHost, wanted: ContainerRequest, told: str) -> None:
    """A retry would fail as well, so the reason names the configuration."""
    with pytest.raises(RuntimeFailure, match=told) as failure:
        config(wanted, machine)
    assert failure.value.reason == "CreateContainerConfigError"


@pytest.mark.parametrize(
    ("pod", "container", "user"),
    [
        (None, None, ProcessUser(uid=0, gid=0)),
        (PodSecurityContext(run_as_user=1000), None, ProcessUser(uid=1000, gid=1001)),
        (PodSecurityContext(run_as_user=1000), SecurityContext(run_as_user=7), ProcessUser(uid=7, gid=7)),
        (PodSecurityContext(run_as_group=5), SecurityContext(run_as_user=0), ProcessUser(uid=0, gid=5)),
        (PodSecurityContext(supplemental_groups=(3, 4, 3), fs_group=4), None, ProcessUser(uid=0, gid=0, groups=(3, 4))),
    ],
    ids=["root", "with a group of its own", "container first, without one", "zero is a user", "groups once each"],
)
def test_root_becomes_the_requested_user(
    pod: PodSecurityContext | None, container: SecurityContext | None, user: ProcessUser
) -> None:
    """The container's settings override the pod's."""
    assert user_of(pod, container, me=ROOT.me, account=ROOT.account) == user


@settings(max_examples=100)
@given(*(st.none() | st.integers(0, 3) for _ in range(4)))
def test_nobody_runs_as_somebody_it_did_not_ask_for(
    pod_user: int | None, pod_group: int | None, user: int | None, group: int | None
) -> None:
    """Other users than root keep their identity or are refused; requested ids are always applied."""
    pod = PodSecurityContext(run_as_user=pod_user, run_as_group=pod_group)
    container = SecurityContext(run_as_user=user, run_as_group=group)
    asked = (user if user is not None else pod_user, group if group is not None else pod_group)
    for me in (ProcessUser(uid=0, gid=0), ProcessUser(uid=2, gid=2)):
        try:
            found = user_of(pod, container, me=me, account=lambda _: None)
        except UserNotAllowed:
            assert me.uid == 2
            continue
        assert asked[0] in {None, found.uid}
        assert asked[1] in {None, found.gid}


@pytest.mark.parametrize(
    ("context", "kept"),
    [
        (None, 14),
        (SecurityContext(privileged=True), 41),
        (SecurityContext(capabilities=Capabilities(drop=("ALL",))), 0),
        (SecurityContext(capabilities=Capabilities(drop=("ALL",), add=("NET_BIND_SERVICE",))), 1),
        (SecurityContext(capabilities=Capabilities(add=("cap_sys_time",))), 15),
        (SecurityContext(capabilities=Capabilities(add=("ALL",), drop=("CHOWN",))), 40),
    ],
    ids=["usual", "privileged", "none", "one", "one more", "all but one"],
)
def test_capabilities_are_those_containers_have(context: SecurityContext | None, kept: int) -> None:
    """Unless the container adds or drops some."""
    assert 41 - len(dropped_capabilities(context)) == kept


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (None, 15),
        ("SIGUSR1", signal.SIGUSR1),
        ("SIGRTMIN+3", signal.SIGRTMIN + 3),
        ("SIGRTMAX-1", signal.SIGRTMAX - 1),
        ("SIGRTMAX", signal.SIGRTMAX),
        ("SIGRTMAX+9", 15),
        ("NONSENSE", 15),
    ],
)
def test_signals_have_names(name: str | None, number: int) -> None:
    """As in `lifecycle.stopSignal`; an unknown signal is TERM."""
    assert signal_number(name) == number


HERE = Mount(host_path="/data", container_path="/data/")
LOCKED = Mount(host_path="/data", container_path="/data", read_only=True)
ELSEWHERE = Mount(host_path="/data", container_path="/other")
HOSTS = Mount(host_path="/state/hosts", container_path="/etc/hosts")
WORDS = Mount(host_path="/state/words", container_path="/dev/termination-log")
TOKEN = Mount(host_path="/state/t", container_path="/var/run/secrets/kubernetes.io/serviceaccount", read_only=True)
FIELDS: dict[str, Any] = {"termination_message_path": "/dev/termination-log"}


def token_mount(volume: str) -> VolumeMount:
    return VolumeMount(name=volume, mount_path=TOKEN.container_path, read_only=True)


@pytest.mark.parametrize(
    ("mounts", "fields", "told"),
    [
        ((HERE, HOSTS, WORDS), FIELDS, ""),
        ((LOCKED,), FIELDS, "the volume mount at /data:"),
        ((ELSEWHERE, HOSTS), FIELDS, "the volume mount at /other:"),
        ((HOSTS,), {"volume_mounts": (VolumeMount(name="v", mount_path="/etc/hosts"),)}, "at /etc/hosts"),
        ((WORDS,), {}, "at /dev/termination-log"),
        ((TOKEN,), FIELDS | {"volume_mounts": (token_mount("kube-api-access-x1y2z"),)}, ""),
        ((TOKEN,), FIELDS | {"volume_mounts": (token_mount("mine"),)}, "at /var/run/secrets"),
    ],
    ids=["nothing to do", "read-only", "elsewhere", "hosts asked for", "words nobody mentioned", "token", "own token"],
)
def test_without_mounts_only_those_are_allowed_that_change_nothing(
    mounts: tuple[Mount, ...], fields: dict[str, Any], told: str
) -> None:
    """Other mounts are refused, as programs would miss them; with mount support all are mounted."""
    wanted = request("a", mounts=mounts, **fields)
    assert len(mounts_of(wanted, BY_ROOT)) == len(mounts)
    if not told:
        assert mounts_of(wanted, NO_NAMESPACE) == ()
        return
    with pytest.raises(RuntimeFailure, match=told):
        mounts_of(wanted, NO_NAMESPACE)


@pytest.mark.parametrize(("way", "place"), [(NO_NAMESPACE, "/state/t"), (BY_ROOT, None)])
def test_without_mounts_a_variable_says_where_the_token_is(way: str, place: str | None) -> None:
    """Admission mounts it into every pod, so refusing it would refuse all pods."""
    machine = ProcessHost(me=ProcessUser(uid=0, gid=0), account=ACCOUNTS.get, way=way)
    wanted = request("a", mounts=(TOKEN,), volume_mounts=(token_mount("kube-api-access-x1y2z"),))
    assert dict(config(wanted, machine).environment).get("KUBERNETES_SERVICE_ACCOUNT_PATH") == place


@pytest.mark.parametrize(
    ("propagation", "way", "is_possible"),
    [
        ("HostToContainer", BY_ROOT, True),
        ("HostToContainer", BY_BUBBLEWRAP, False),
        ("Bidirectional", BY_ROOT, False),
        ("None", BY_BUBBLEWRAP, True),
    ],
)
def test_propagation_is_honoured_or_refused(propagation: str, way: str, is_possible: bool) -> None:
    """Mounts made by a container never reach the host; the other direction depends on how mounts are made."""
    wanted = request("a", mounts=(Mount(host_path="/a", container_path="/b", propagation=propagation),))
    if is_possible:
        assert [mount.propagation for mount in mounts_of(wanted, way)] == [propagation]
        return
    with pytest.raises(RuntimeFailure, match=f"mountPropagation {propagation} of /b"):
        mounts_of(wanted, way)


V1 = AvailableCgroups(version=1, folders={MEMORY: "/m", CPU: "/c"})
V2 = AvailableCgroups(version=2, folders={MEMORY: "/x", CPU: "/x"})


def test_limits_are_written_for_each_cgroup_version() -> None:
    """Half a CPU as limit, a quarter as request, and 1 MiB of memory."""
    resources = ResourceRequirements(limits={"cpu": "500m", "memory": "1Mi"}, requests={"cpu": "250m"})
    assert plan_cgroups(V1, "id", resources) == (
        ControlGroup(path="/m/id", values=(("memory.limit_in_bytes", 1048576),)),
        ControlGroup(
            path="/c/id", values=(("cpu.shares", 256), ("cpu.cfs_period_us", 100000), ("cpu.cfs_quota_us", 50000))
        ),
    )
    assert plan_cgroups(V2, "id", resources) == (
        ControlGroup(path="/x/id", values=(("memory.max", 1048576), ("cpu.weight", 10), ("cpu.max", "50000 100000"))),
    )


@pytest.mark.parametrize("cgroups", [V1, V2, AvailableCgroups()], ids=["v1", "v2", "none"])
def test_container_without_limits_has_no_cgroup(cgroups: AvailableCgroups) -> None:
    """Zero and invalid quantities count as no limit."""
    assert plan_cgroups(cgroups, "id", ResourceRequirements()) == ()
    assert plan_cgroups(cgroups, "id", ResourceRequirements(limits={"memory": "0", "cpu": "nonsense"})) == ()


@pytest.mark.parametrize("folders", [{MEMORY: "/m", PIDS: "/p"}, {MEMORY: "/p", CPU: "/p", PIDS: "/p"}])
def test_number_of_processes_is_limited_whatever_else_is(folders: dict[str, str]) -> None:
    """Only with a pids controller; a negative limit means none."""
    cgroups, nothing = AvailableCgroups(version=2, folders=folders), ResourceRequirements()
    assert plan_cgroups(cgroups, "id", nothing, max_pids=100) == (
        ControlGroup(path="/p/id", values=(("pids.max", 100),)),
    )
    assert plan_cgroups(cgroups, "id", nothing, max_pids=-1) == ()
    assert plan_cgroups(V2, "id", nothing, max_pids=100) == ()


@settings(max_examples=100)
@given(st.integers(1, 10**6), st.sampled_from([1, 2]))
def test_any_share_of_the_processor_is_within_the_kernels_bounds(milli: int, version: int) -> None:
    """For both cgroup versions."""
    cgroups = AvailableCgroups(version=version, folders={CPU: "/c"})
    resources = ResourceRequirements(limits={"cpu": f"{milli}m"})
    values = {name: value for group in plan_cgroups(cgroups, "id", resources) for name, value in group.values}
    if version == 1:
        assert 2 <= int(values["cpu.shares"]) <= 262144
        assert int(values["cpu.cfs_quota_us"]) >= 1000
    else:
        assert 1 <= int(values["cpu.weight"]) <= 10000
        assert int(str(values["cpu.max"]).split()[0]) >= 1000


def test_non_root_user_stays_the_same() -> None:
    """The supervisor of a non-root user changes neither user nor capabilities."""
    made = config(request("a", stdin=True, lifecycle=Lifecycle(stop_signal="SIGINT")), ME)
    assert (made.user, made.dropped_capabilities, made.way) == (None, (), BY_USER)
    assert (made.stop_signal, made.facts.stop_signal, made.stdin) == (2, 2, True)
