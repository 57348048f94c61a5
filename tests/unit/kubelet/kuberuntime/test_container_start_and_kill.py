"""Properties of the pure decisions about starting and stopping containers."""

from dataclasses import replace as changed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.generated.core import Container, HTTPGetAction, PodSecurityContext, SecurityContext
from pykubelet.api.pods import PodUid
from pykubelet.client.recorder import container_reference, without_id
from pykubelet.httpserver.http_client import as_plain_http, container_port, http_get_request
from pykubelet.kubelet.kuberuntime.container import must_know_user, verify_run_as_non_root
from pykubelet.kubelet.kuberuntime.manager import all_init_containers, surplus_init_containers
from pykubelet.kubelet.kuberuntime.termination import termination_dependencies
from pykubelet.runtimes.protocol import ContainerState, RuntimeContainer, RuntimePod
from pykubelet.testing.build import container, pod
from pykubelet.testing.virtual_time import EPOCH

INIT = st.lists(st.sampled_from(["Always", None]), max_size=5).map(
    lambda policies: tuple(container(f"i{index}", restart_policy=policy) for index, policy in enumerate(policies))
)
STATES = st.sampled_from(list(ContainerState))


def ended_in_turn(waits: dict[str, frozenset[str]], running: set[str]) -> list[str]:
    """A valid termination order; empty if the dependencies have a cycle."""
    order: list[str] = []
    while len(order) < len(running):
        free = sorted(name for name in running if name not in order and waits.get(name, frozenset()) <= set(order))
        if not free:
            return []
        order += free
    return order


@settings(max_examples=100)
@given(INIT, st.data())
def test_termination_dependencies_have_no_cycle(init: tuple[Container, ...], data: st.DataObject) -> None:
    """Only sidecars wait, only for running containers; the last sidecar waits for the regular containers alone."""
    web = pod(init_containers=init, containers=(container("a"), container("b")))
    names = [one.name for one in (*init, *web.spec.containers)]
    running = data.draw(st.sets(st.sampled_from(names)))
    waits = dict(termination_dependencies(web, running))
    sidecars = [one.name for one in init if one.restart_policy == "Always" and one.name in running]
    assert list(waits) == sidecars
    assert all(waited <= running for waited in waits.values())
    assert len(ended_in_turn(waits, running)) == len(running)
    if sidecars:
        assert waits[sidecars[-1]] == running & {"a", "b"}
        assert waits[sidecars[0]] == (running & {"a", "b"}) | set(sidecars[1:])


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["i0", "i1", "main"]), STATES), max_size=8))
def test_surplus_init_containers_exclude_the_newest(made: list[tuple[str, ContainerState]]) -> None:
    """Running containers are kept, and at most one dead container per name."""
    containers = tuple(
        RuntimeContainer(id=str(index), name=name, state=state, created_at=EPOCH)
        for index, (name, state) in enumerate(made)
    )
    web = pod(init_containers=(container("i0"), container("i1")))
    observed = RuntimePod(uid=PodUid("u"), namespace="n", name="p", containers=containers)
    surplus = set(surplus_init_containers(web, observed))
    left = [one for one in containers if one.id not in surplus]
    over = [one.name for one in left if one.state in {ContainerState.EXITED, ContainerState.UNKNOWN}]
    assert [one.name for one in containers if one.name == "main"] == [one.name for one in left if one.name == "main"]
    assert over.count("i0") <= 1
    assert over.count("i1") <= 1
    assert all(one in left for one in containers if one.state in {ContainerState.RUNNING, ContainerState.CREATED})
    assert surplus <= set(all_init_containers(web, observed))
    assert {one.name for one in containers if one.id in all_init_containers(web, observed)} <= {"i0", "i1"}


FLAGS = st.sampled_from([None, True, False])
USERS = st.sampled_from([None, 0, 1, 1000])


@settings(max_examples=200)
@given(FLAGS, FLAGS, USERS, USERS, st.sampled_from([None, "", "0", "1", "1000", "root", "-1", "2147483648"]))
def test_root_never_runs_where_it_must_not(
    of_pod: bool | None, of_container: bool | None, pod_user: int | None, own_user: int | None, image_user: str | None
) -> None:
    """The container's setting overrides the pod's; an image user that may be root is rejected."""
    main = container(security_context=SecurityContext(run_as_non_root=of_container, run_as_user=own_user))
    web = pod(security_context=PodSecurityContext(run_as_non_root=of_pod, run_as_user=pod_user))
    is_forbidden = bool(of_container if of_container is not None else of_pod)
    user = own_user if own_user is not None else pod_user
    refusal = verify_run_as_non_root(web, main, image_user)
    assert must_know_user(web, main) == (is_forbidden and user is None)
    if not is_forbidden:
        assert refusal == ""
    elif user is not None:
        assert bool(refusal) == (user == 0)
    else:
        assert bool(refusal) == (image_user not in {None, "1", "1000"})


@pytest.mark.parametrize("port", [None, 0, -1, 65536, "65536", "nobody", ""])
def test_port_that_is_none_is_an_error(port: int | str | None) -> None:
    """Covers numbers and unknown names."""
    with pytest.raises(ValueError, match=r"port|strconv\.Atoi: parsing"):
        container_port(port, container())


@settings(max_examples=100)
@given(st.text(max_size=10), st.sampled_from(["10.0.0.1", "fd00::1", "web.example"]), st.integers(1, 65535))
def test_request_goes_to_the_host_it_was_meant_for(path: str, host: str, port: int) -> None:
    """No path can change host, port or scheme."""
    request = http_get_request(HTTPGetAction(path=path, port=port), container(), pod_ip=host, purpose="probe")
    shown = f"[{host}]" if ":" in host else host
    assert request.url.startswith(f"http://{shown}:{port}")
    assert request.url.removeprefix(f"http://{shown}:{port}")[:1] in {"", "/", "?", "#"}
    assert as_plain_http(changed(request, scheme="https")) == request


def test_container_not_in_the_spec_is_implicitly_required() -> None:
    """The text is upstream's; container ids in messages are replaced by names, so that events aggregate."""
    assert container_reference(pod(), "pause").field_path == "implicitly required container pause"
    assert container_reference(pod(), "main").field_path == "spec.containers{main}"
    assert without_id("stop of abc failed", "abc", "main") == "stop of main failed"
    assert without_id("nothing", "", "main") == "nothing"
