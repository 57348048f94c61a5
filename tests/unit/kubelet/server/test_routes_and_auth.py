"""Request handling of the kubelet server: routes, authorization, health, logs, certificates and caches."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from pykubelet.api.generated.core import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    PodStatus,
)
from pykubelet.httpserver.response import HttpError
from pykubelet.kubelet.server.auth import ExpiringCache, KubeletUser, attributes_of, user_of_certificate
from pykubelet.kubelet.server.container_logs import LogUnavailable, log_options, logged_container
from pykubelet.kubelet.server.handlers import health_page
from pykubelet.kubelet.server.routes import KubeletEndpoint, KubeletRoute, read_target, route

NOW = datetime(2026, 1, 2, tzinfo=UTC)
DOING = {KubeletEndpoint.EXEC, KubeletEndpoint.ATTACH, KubeletEndpoint.PORT_FORWARD, KubeletEndpoint.RUN}


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/pods", KubeletRoute(KubeletEndpoint.PODS)),
        ("GET", "/pods/", KubeletRoute(KubeletEndpoint.PODS)),
        ("HEAD", "/healthz", KubeletRoute(KubeletEndpoint.HEALTH)),
        ("GET", "/healthz/ping", KubeletRoute(KubeletEndpoint.HEALTH, check="ping")),
        ("GET", "/runningpods/", KubeletRoute(KubeletEndpoint.RUNNING_PODS)),
        ("GET", "/metrics", KubeletRoute(KubeletEndpoint.METRICS)),
        ("GET", "/metrics/resource", KubeletRoute(KubeletEndpoint.RESOURCE_METRICS)),
        ("GET", "/stats/summary", KubeletRoute(KubeletEndpoint.SUMMARY)),
        ("GET", "/containerLogs/ns/pod/c", KubeletRoute(KubeletEndpoint.LOGS, "ns", "pod", container="c")),
        ("POST", "/exec/ns/pod/c", KubeletRoute(KubeletEndpoint.EXEC, "ns", "pod", container="c")),
        ("GET", "/attach/ns/pod/uid/c", KubeletRoute(KubeletEndpoint.ATTACH, "ns", "pod", "uid", "c")),
        ("GET", "/portForward/ns/pod", KubeletRoute(KubeletEndpoint.PORT_FORWARD, "ns", "pod")),
        ("POST", "/portForward/ns/pod/uid", KubeletRoute(KubeletEndpoint.PORT_FORWARD, "ns", "pod", "uid")),
        ("POST", "/run/n%20s/pod/c", KubeletRoute(KubeletEndpoint.RUN, "n s", "pod", container="c")),
    ],
)
def test_paths_lead_to_pages(method: str, path: str, expected: KubeletRoute) -> None:
    """The route contains the names in the path."""
    assert route(method, path) == expected


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/", 404),
        ("GET", "/exec", 404),
        ("GET", "/exec/ns/pod", 404),
        ("GET", "/exec/ns//c", 404),
        ("GET", "/exec/a/b/c/d/e", 404),
        ("GET", "//exec/ns/pod/c", 404),
        ("GET", "/%65xec/ns/pod/c", 404),
        ("GET", "/portForward/ns", 404),
        ("GET", "/healthz/ping/more", 404),
        ("GET", "/configz", 404),
        ("GET", "/debug/pprof/heap", 404),
        ("GET", "/logs/", 404),
        ("GET", "/logs/syslog", 404),
        ("POST", "/checkpoint/ns/pod/c", 404),
        ("GET", "/containerLogs/ns/pod", 404),
        ("GET", "/containerLogs/ns//c", 400),
        ("DELETE", "/pods", 405),
        ("POST", "/metrics", 405),
        ("PUT", "/exec/ns/pod/c", 405),
        ("GET", "/run/ns/pod/c", 405),
    ],
)
def test_other_paths_lead_nowhere(method: str, path: str, code: int) -> None:
    """Unknown paths give 404, wrong methods 405."""
    with pytest.raises(HttpError) as refused:
        route(method, path)
    assert refused.value.reply.code == code


_SEGMENTS = st.sampled_from(["exec", "attach", "run", "portForward", "pods", "..", "", "a", "%65xec", "metrics", "x"])


@given(st.sampled_from(["GET", "POST", "PUT", "HEAD"]), st.lists(_SEGMENTS, max_size=6))
def test_whatever_does_something_needs_the_right_to_create(method: str, segments: list[str]) -> None:
    """No spelling of a path reaches a page that runs commands without the create verb."""
    path = "/" + "/".join(segments)
    needed = attributes_of(method, path)
    assert needed.subresources
    try:
        found = route(method, path)
    except HttpError:
        return
    assert needed.verb == ("create" if found.page in DOING else "get")


def test_target_is_a_path_with_a_query() -> None:
    """Other forms, and queries that are too large, are rejected."""
    assert read_target("/a%2Fb?x=1&y&x=%20") == ("/a%2Fb", (("x", "1"), ("y", ""), ("x", " ")))
    for bad in ("https://node/pods", "pods", "*", "/pods?" + "a=1&" * 5000):
        with pytest.raises(HttpError):
            read_target(bad)


def test_health_page_shows_each_check_when_verbose() -> None:
    """All checks, a single one, excluded ones, and unknown ones."""
    checks = {"ping": lambda: "", "loop": lambda: "stuck"}
    verbose = "[+]ping ok\n[+]loop excluded: ok\nhealthz check passed\n"
    assert health_page("", [("verbose", ""), ("exclude", "loop")], checks).body.decode() == verbose
    unknown = health_page("", [("exclude", "other"), ("exclude", "loop"), ("verbose", "")], checks).body.decode()
    assert 'warn: some health checks cannot be excluded: no matches for "other"' in unknown
    assert health_page("", [], checks).code == 500
    assert health_page("ping", [], checks).code == 200
    assert health_page("other", [], checks).code == 404


def ended(container_id: str) -> ContainerStateTerminated:
    return ContainerStateTerminated(container_id=container_id, exit_code=1)


NO_STATE = ContainerState()


def shown(state: ContainerState = NO_STATE, last_state: ContainerState = NO_STATE, container_id: str = "") -> PodStatus:
    one = ContainerStatus(name="c", state=state, last_state=last_state, container_id=container_id)
    return PodStatus(container_statuses=(one,))


RUNNING = ContainerState(running=ContainerStateRunning())
PULLING = ContainerState(waiting=ContainerStateWaiting(reason="ImagePullBackOff"))
CREATING = ContainerState(waiting=ContainerStateWaiting(reason="ContainerCreating"))
FORMER = ContainerState(terminated=ended("t://1"))


@pytest.mark.parametrize(
    ("status", "previous", "expected"),
    [
        (shown(state=RUNNING, container_id="t://2"), False, "t://2"),
        (shown(state=RUNNING, container_id="t://2", last_state=FORMER), True, "t://1"),
        (shown(state=ContainerState(terminated=ended("t://2")), last_state=FORMER), False, "t://2"),
        (shown(state=ContainerState(terminated=ended("")), last_state=FORMER), False, "t://1"),
        (shown(state=PULLING, last_state=FORMER), False, "t://1"),
        (shown(state=RUNNING), True, 'previous terminated container "c" in pod "p" not found'),
        (shown(state=ContainerState(terminated=ended(""))), False, 'container "c" in pod "p" is terminated'),
        (shown(last_state=ContainerState(terminated=ended(""))), False, 'container "c" in pod "p" is terminated'),
        (shown(state=PULLING), False, 'container "c" in pod "p" is waiting to start: trying and failing to pull image'),
        (shown(state=CREATING), False, 'container "c" in pod "p" is waiting to start: ContainerCreating'),
        (shown(), False, 'container "c" in pod "p" is waiting to start - no logs yet'),
        (PodStatus(), False, 'container "c" in pod "p" is not available'),
    ],
)
def test_log_container_is_the_one_of_the_status(status: PodStatus, previous: bool, expected: str) -> None:
    """The current container, its predecessor, or an error that explains why there is none."""
    try:
        found = logged_container("p", status, "c", previous=previous)
    except LogUnavailable as error:
        found = str(error)
    assert found == expected


def test_log_of_init_and_ephemeral_containers_is_found() -> None:
    one = ContainerStatus(name="c", state=RUNNING, container_id="t://1")
    for status in (PodStatus(init_container_statuses=(one,)), PodStatus(ephemeral_container_statuses=(one,))):
        assert logged_container("p", status, "c", previous=False) == "t://1"


_NAMES = st.sampled_from(["tail", "tailLines", "limitBytes", "sinceSeconds", "sinceTime", "stream", "follow", "x"])
_VALUES = st.one_of(
    st.text(max_size=8), st.integers().map(str), st.sampled_from(["all", "All", "2026-01-02T03:04:05Z"])
)


@given(st.lists(st.tuples(_NAMES, _VALUES), max_size=5))
def test_any_options_of_logs_are_read_or_refused(query: list[tuple[str, str]]) -> None:
    """Any query gives valid options, or status 400 or 422."""
    try:
        found = log_options(query, NOW).query
    except HttpError as refusal:
        codes = {refusal.reply.code}
    else:
        codes = set()
        assert found.tail_lines is None or found.tail_lines >= 0
        assert found.limit_bytes is None or found.limit_bytes >= 1
        assert not (found.stream and found.tail_lines is not None)
    assert codes <= {400, 422}


def test_huge_since_seconds_means_all_logs() -> None:
    """The duration exceeds the range of dates."""
    assert log_options([("sinceSeconds", str(2**62))], NOW).query.since is None


def certificate(**subject: str) -> bytes:
    """A self-signed certificate with the given subject."""
    names = {"name": NameOID.COMMON_NAME, "group": NameOID.ORGANIZATION_NAME}
    key = ec.generate_private_key(ec.SECP256R1())
    whose = x509.Name([x509.NameAttribute(names[kind], value) for kind, value in subject.items()])
    builder = x509.CertificateBuilder().subject_name(whose).issuer_name(whose).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(NOW).not_valid_after(NOW)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_certificate_gives_user_and_groups() -> None:
    """The common name is the user, organizations are groups; without a common name there is no user."""
    assert user_of_certificate(certificate(name="jane", group="editors")) == KubeletUser(
        "jane", ("editors", "system:authenticated")
    )
    known = user_of_certificate(certificate(name="jane", group="system:authenticated"))
    assert known == KubeletUser("jane", ("system:authenticated",))
    assert user_of_certificate(certificate(group="editors")) is None
    assert user_of_certificate(b"no certificate") is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), max_size=40))
def test_cached_answers_are_bounded_and_current(puts: list[tuple[int, int]]) -> None:
    """The cache never exceeds its limit, and returns only the latest value before its expiry."""
    memory: ExpiringCache[int] = ExpiringCache(4)
    last: dict[int, tuple[int, int]] = {}
    for now, (key, seconds) in enumerate(puts):
        memory.put(key, now, now + seconds)
        last[key] = now + seconds, now
        assert len(memory) <= 4
        for known, (until, value) in last.items():
            found = memory.get(known, now)
            assert found is None or (found == value and now < until)
