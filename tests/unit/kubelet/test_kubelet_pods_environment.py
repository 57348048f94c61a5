"""The environment of a container, beyond the numbered cases."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.kubelet.expansion import ExpansionTooLongError, expand_all, mapping_func_for
from pykubelet.kubelet.kubelet_pods import EnvironmentSources, make_environment, referenced_names
from pykubelet.kubelet.objectcache.pod_objects import ObjectLookups
from pykubelet.kubelet.volumemanager.downward_api import Addresses
from pykubelet.kubelet.volumemanager.errors import ContainerConfigError
from pykubelet.kubelet.volumemanager.mounts import expand_sub_path
from pykubelet.testing.build import config_map, secret
from volume_pods import container, pod_with

POD = pod_with()
AROUND = EnvironmentSources(
    lookups=ObjectLookups(
        config_maps={"c": config_map("c", {"k": "$(X)"}), "broken": TimeoutError("not synced")},
        secrets={"s": secret("s", {"k": b"word", "nul": b"a\0b", "binary": b"\xff"})},
    ),
    addresses=Addresses(pod_ips=("10.0.0.5",)),
    allocatable={"cpu": "4"},
)


def value(**source: Any) -> dict[str, str]:
    return make_environment(POD, container(env=[{"name": "V", "valueFrom": source}]), AROUND)


def test_sources_of_variables_are_resolved() -> None:
    """From a field, a resource and keys of both kinds; referenced values are not expanded."""
    assert value(fieldRef={"apiVersion": "v1", "fieldPath": "status.podIP"}) == {"V": "10.0.0.5"}
    assert value(resourceFieldRef={"resource": "limits.cpu"}) == {"V": "4"}
    assert value(configMapKeyRef={"name": "c", "key": "k"}) == {"V": "$(X)"}
    assert value(secretKeyRef={"name": "s", "key": "k"}) == {"V": "word"}
    assert value() == {"V": ""}


PROBLEMS: list[Any] = [
    ({"secretKeyRef": {"name": "s", "key": "nul"}}, 'environment variable "V" must not contain a NUL byte'),
    (
        {"secretKeyRef": {"name": "s", "key": "binary"}},
        "key binary in Secret s is not valid UTF-8, cannot be a variable",
    ),
    ({"configMapKeyRef": {"name": "broken", "key": "k"}}, "not synced"),
    ({"configMapKeyRef": {"name": "broken", "key": "k", "optional": True}}, "not synced"),
    ({"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.x"}}, "field label not supported: spec.x"),
    ({"resourceFieldRef": {"resource": "limits.x"}}, "unsupported container resource : limits.x"),
    ({"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}, "fileKeyRef is not supported by this node"),
]


@pytest.mark.parametrize(("source", "complaint"), PROBLEMS)
def test_variable_that_cannot_be_made_is_an_error_with_its_cause(source: dict[str, Any], complaint: str) -> None:
    """An optional object may be missing, but a failed lookup is still an error."""
    with pytest.raises(ContainerConfigError) as caught:
        value(**source)
    assert str(caught.value) == complaint


def test_source_that_names_nothing_gives_nothing() -> None:
    """Upstream does the same; the API server rejects such a source."""
    assert make_environment(POD, container(envFrom=[{"prefix": "p_"}]), AROUND) == {}


def test_wanted_names_are_all_that_is_looked_up() -> None:
    """A reference beside a literal value is not resolved and therefore not looked up."""
    spec = container(
        envFrom=[{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}, {"prefix": "x"}],
        env=[
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "d", "key": "k"}}},
            {"name": "C", "value": "x", "valueFrom": {"secretKeyRef": {"name": "e", "key": "k"}}},
            {"name": "D", "value": "y"},
        ],
    )
    names = referenced_names(spec)
    assert names.config_maps == {"a", "c"}
    assert names.secrets == {"b", "d"}


NAMES = st.sampled_from(["A", "B", "C"])
ENTRIES = st.lists(
    st.tuples(NAMES, st.lists(st.sampled_from(["x", "$(A)", "$(B)", "$(C)", "$$"]), max_size=3)), max_size=5
)


@settings(max_examples=150)
@given(ENTRIES)
def test_each_variable_depends_only_on_those_above(entries: list[tuple[str, list[str]]]) -> None:
    """Removing later entries leaves the variables above them unchanged."""
    env = [{"name": name, "value": "".join(parts)} for name, parts in entries]
    whole = make_environment(POD, container(env=env), AROUND)
    for cut in range(len(env)):
        part = make_environment(POD, container(env=env[:cut]), AROUND)
        later = {entry["name"] for entry in env[cut:]}
        assert {name: text for name, text in part.items() if name not in later}.items() <= whole.items()


def test_references_that_grow_without_end_are_an_error_that_names_the_variable() -> None:
    """Each variable doubles the one before; the kernel could start no process with the result."""
    doubling = [{"name": f"A{number + 1}", "value": f"$(A{number})$(A{number})"} for number in range(40)]
    with pytest.raises(ContainerConfigError) as caught:
        make_environment(POD, container(env=[{"name": "A0", "value": "x"}, *doubling]), AROUND)
    assert str(caught.value) == 'environment variable "A18": references expand to more than 131072 characters'


@pytest.mark.parametrize(
    "long", [{"env": [{"name": f"V{n}", "value": "$(BIG)"} for n in range(100)]}, {"envFrom": "repeated"}]
)
def test_environment_has_a_limit_in_all(long: dict[str, Any]) -> None:
    """A short list of references to one long value stays small, whether it is repeated by name or with prefixes."""
    sources = EnvironmentSources(lookups=ObjectLookups(config_maps={"big": config_map("big", {"BIG": "x" * 100_000})}))
    prefixes = [""] if "env" in long else [f"P{number}_" for number in range(100)]
    env_from = [{"prefix": prefix, "configMapRef": {"name": "big"}} for prefix in prefixes]
    with pytest.raises(ContainerConfigError, match=r"environment variable .*more than 6291456 characters"):
        make_environment(POD, container(env=long.get("env", []), envFrom=env_from), sources)


def test_command_has_a_limit() -> None:
    """Neither one argument nor all of them together become longer than the kernel accepts."""
    environment = {"BIG": "x" * 100_000}
    value_of = mapping_func_for(environment)
    with pytest.raises(ExpansionTooLongError, match="references expand to more than 131072 characters"):
        expand_all(("sh", "$(BIG)$(BIG)"), value_of)
    with pytest.raises(ExpansionTooLongError, match="the command expands to more than"):
        expand_all(("$(BIG)",) * 100, value_of)
    with pytest.raises(ExpansionTooLongError):
        expand_sub_path("$(BIG)$(BIG)", environment)
