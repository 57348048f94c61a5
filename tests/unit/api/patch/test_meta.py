"""Patch metadata of fields: type, merge key and patch strategy."""

import pytest

from pykubelet.api.patch.errors import PatchError, UnknownFieldError
from pykubelet.api.patch.meta import Definition, type_schema

POD_SPEC = type_schema("core.v1.PodSpec")


@pytest.mark.parametrize("definition", ["core.v1.Pod", ("v1", "Pod")])
def test_type_is_found_by_definition_or_kind(definition: Definition) -> None:
    assert type_schema(definition) is type_schema("core.v1.Pod")
    assert type_schema(definition).field("spec").type is POD_SPEC


@pytest.mark.parametrize("definition", ["core.v1.Nothing", ("v9", "Pod"), ""])
def test_unknown_definition_is_an_error(definition: Definition) -> None:
    with pytest.raises(PatchError, match="no definition"):
        type_schema(definition)


@pytest.mark.parametrize(
    ("owner", "key", "expected"),
    [
        ("core.v1.PodSpec", "containers", ("Container", "name", "merge", False)),
        ("core.v1.PodSpec", "volumes", ("Volume", "name", "merge", True)),
        ("core.v1.PodSpec", "tolerations", ("Toleration", "", "", False)),
        ("core.v1.Container", "ports", ("ContainerPort", "containerPort", "merge", False)),
        ("core.v1.ServiceSpec", "ports", ("ServicePort", "port", "merge", False)),
        ("core.v1.NodeSpec", "podCIDRs", ("string", "", "merge", False)),
        ("meta.v1.ObjectMeta", "managedFields", ("RawExtension", "", "", False)),
    ],
)
def test_list_field_has_merge_key_and_strategy(owner: str, key: str, expected: tuple[str, str, str, bool]) -> None:
    field = type_schema(owner).list_field(key)
    assert (field.element.name, field.merge_key, field.strategy, field.retain_keys) == expected


@pytest.mark.parametrize(
    ("owner", "key", "strategy", "retain_keys"),
    [
        ("apps.v1.DeploymentSpec", "strategy", "", True),
        ("policy.v1.PodDisruptionBudgetSpec", "selector", "replace", False),
        ("core.v1.PodSpec", "securityContext", "", False),
    ],
)
def test_map_field_has_strategy(owner: str, key: str, strategy: str, retain_keys: bool) -> None:
    field = type_schema(owner).field(key)
    assert (field.strategy, field.retain_keys) == (strategy, retain_keys)


def test_field_lookup_ignores_case_as_go_does() -> None:
    """A key in the wrong case merges as the field it will be decoded into."""
    assert POD_SPEC.field("NODEname") is POD_SPEC.field("nodeName")


def test_unknown_field_names_its_struct() -> None:
    """kubectl shows this message."""
    with pytest.raises(
        UnknownFieldError, match='unable to find api field in struct PodSpec for the json field "bogus"'
    ):
        POD_SPEC.field("bogus")


def test_field_inside_a_map_type_is_unknown() -> None:
    """Maps such as labels contain no struct fields."""
    labels = type_schema("meta.v1.ObjectMeta").field("labels").type
    with pytest.raises(UnknownFieldError, match="not struct, instead is: map"):
        labels.field("a")


def test_list_for_a_field_that_is_not_a_list_is_an_error() -> None:
    """Only a list in the definition has a merge strategy for lists."""
    with pytest.raises(UnknownFieldError, match="expected slice or array type"):
        POD_SPEC.list_field("nodeName")
