"""Cases 6.24-48 to -50: the environment of a container."""

from typing import Any

import pytest
from msgspec.structs import replace

from pykubelet.api.errors import NotFound
from pykubelet.api.pods import CONFIG_SOURCE
from pykubelet.kubelet.kubelet_pods import EnvironmentSources, make_environment
from pykubelet.kubelet.objectcache.pod_objects import ObjectLookups
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.testing.build import config_map, secret
from volume_pods import container, pod_with, service

POD = pod_with()
STATIC = replace(POD, metadata=replace(POD.metadata, annotations={CONFIG_SOURCE: "file"}))
KUBERNETES = service("kubernetes", "10.0.0.1", {"port": 443, "name": "https"})
OWN = service("my-db", "10.0.0.2", {"port": 5432})
SERVICES = (KUBERNETES, OWN, service("theirs", "10.0.0.3", {"port": 1}, namespace="other"))
GONE = NotFound('configmap "gone" not found')
GONE_SECRET = NotFound('secret "gone" not found')
LOOKUPS = ObjectLookups(
    config_maps={"settings": config_map("settings", {"1234": "abc", "colour": "red"}), "gone": GONE},
    secrets={"login": secret("login", {"user": b"me"}), "gone": GONE_SECRET},
)


def env_of(*, env: list[dict[str, Any]] | None = None, env_from: list[dict[str, Any]] | None = None) -> dict[str, str]:
    return make_environment(POD, container(env=env or [], envFrom=env_from or []), EnvironmentSources(lookups=LOOKUPS))


@pytest.mark.case("6.24-48 references see earlier variables only")
def test_variables_expand_references_to_earlier_variables_only() -> None:
    """A reference to a later variable stays, an empty value expands to nothing, and chains resolve in order."""
    env = [
        {"name": "OUT_OF_ORDER_TEST", "value": "$(LATER)"},
        {"name": "LATER", "value": "late"},
        {"name": "EMPTY_VAR"},
        {"name": "USES_EMPTY", "value": "foo-$(EMPTY_VAR)"},
        {"name": "CHAIN_A", "value": "a"},
        {"name": "CHAIN_B", "value": "$(CHAIN_A)b"},
        {"name": "CHAIN_C", "value": "$(CHAIN_B)c"},
    ]
    assert env_of(env=env) == {
        "OUT_OF_ORDER_TEST": "$(LATER)",
        "LATER": "late",
        "EMPTY_VAR": "",
        "USES_EMPTY": "foo-",
        "CHAIN_A": "a",
        "CHAIN_B": "ab",
        "CHAIN_C": "abc",
    }


@pytest.mark.case("6.24-49 services not listed yet")
def test_environment_waits_for_services_unless_the_pod_is_static() -> None:
    """A pod from the API needs the services; a static pod may run the API server."""
    with pytest.raises(
        ContainerConfigError, match=r"^services have not yet been read at least once, cannot construct envvars$"
    ):
        make_environment(POD, container(), EnvironmentSources(services=None))
    assert make_environment(STATIC, container(), EnvironmentSources(services=None)) == {}


@pytest.mark.case("6.24-49 enableServiceLinks")
def test_service_variables_follow_enable_service_links() -> None:
    """With links all services of the namespace count, without them only the API server; an unset field is an error."""
    around = EnvironmentSources(services=SERVICES)
    linked = make_environment(POD, container(), around)
    assert linked["MY_DB_SERVICE_HOST"] == "10.0.0.2"
    assert linked["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert not [name for name in linked if name.startswith("THEIRS")]
    without = replace(POD, spec=replace(POD.spec, enable_service_links=False))
    alone = make_environment(without, container(), around)
    assert alone
    assert all(name.startswith("KUBERNETES_") for name in alone)
    unsaid = replace(POD, spec=replace(POD.spec, enable_service_links=None))
    with pytest.raises(
        ContainerConfigError, match=r"^nil pod\.spec\.enableServiceLinks encountered, cannot construct envvars$"
    ):
        make_environment(unsaid, container(), around)


@pytest.mark.case("6.24-49 user values win over services")
def test_own_variables_win_over_those_of_services() -> None:
    """A reference that precedes the container's own variable gets the value of the service."""
    env = [
        {"name": "URL", "value": "db://$(MY_DB_SERVICE_HOST)"},
        {"name": "MY_DB_SERVICE_HOST", "value": "localhost"},
    ]
    found = make_environment(POD, container(env=env), EnvironmentSources(services=SERVICES))
    assert found["URL"] == "db://10.0.0.2"
    assert found["MY_DB_SERVICE_HOST"] == "localhost"


@pytest.mark.case("6.24-50 envFrom with a prefix")
def test_keys_of_an_object_become_variables_with_their_prefix() -> None:
    """Later sources win, and `env` wins over all of them."""
    env_from: list[dict[str, Any]] = [
        {"configMapRef": {"name": "settings"}, "prefix": "p_"},
        {"secretRef": {"name": "login"}},
        {"configMapRef": {"name": "settings"}},
    ]
    found = env_of(env_from=env_from, env=[{"name": "colour", "value": "was $(colour)"}])
    assert found == {"p_1234": "abc", "p_colour": "red", "user": "me", "1234": "abc", "colour": "was red"}


OPTIONAL_SOURCES: list[Any] = [
    pytest.param({"configMapRef": {"name": "gone"}}, 'configmap "gone" not found', id="6.24-50 config map"),
    pytest.param({"secretRef": {"name": "gone"}}, 'secret "gone" not found', id="6.24-50 secret"),
]
OPTIONAL_KEYS: list[Any] = [
    pytest.param("configMapKeyRef", "gone", 'configmap "gone" not found', id="6.24-50 missing config map"),
    pytest.param("secretKeyRef", "gone", 'secret "gone" not found', id="6.24-50 missing secret"),
    pytest.param(
        "configMapKeyRef",
        "settings",
        "couldn't find key nope in ConfigMap default/settings",
        id="6.24-50 missing key of a config map",
    ),
    pytest.param(
        "secretKeyRef", "login", "couldn't find key nope in Secret default/login", id="6.24-50 missing key of a secret"
    ),
]


@pytest.mark.parametrize(("source", "complaint"), OPTIONAL_SOURCES)
def test_missing_object_is_a_problem_unless_it_is_optional(source: dict[str, Any], complaint: str) -> None:
    """A missing optional object of `envFrom` adds no variables."""
    with pytest.raises(ContainerConfigError, match=f"^{complaint}$"):
        env_of(env_from=[source])
    ((kind, reference),) = source.items()
    assert env_of(env_from=[{kind: {**reference, "optional": True}}]) == {}


@pytest.mark.parametrize(("kind", "name", "complaint"), OPTIONAL_KEYS)
def test_missing_key_is_a_problem_unless_it_is_optional(kind: str, name: str, complaint: str) -> None:
    """An optional variable is absent rather than empty."""
    reference = {"name": name, "key": "nope"}
    with pytest.raises(ContainerConfigError, match=f"^{complaint}$"):
        env_of(env=[{"name": "V", "valueFrom": {kind: reference}}])
    assert env_of(env=[{"name": "V", "valueFrom": {kind: {**reference, "optional": True}}}]) == {}
