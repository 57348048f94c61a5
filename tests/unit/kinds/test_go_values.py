"""Objects in the text form that Go gives its internal types."""

from typing import Any

import pytest

from pykubelet.api.field_errors import OMITTED, go_json, invalid
from pykubelet.kinds.go_values import internal_form, label_selector_value, map_value
from pykubelet.kinds.pod.defaults import default_pod_template_spec


@pytest.mark.parametrize(
    ("document", "kind", "text"),
    [
        ({}, "core.Toleration", '{"Key":"","Operator":"","Value":"","Effect":"","TolerationSeconds":null}'),
        ({"type": "x"}, "apps.DeploymentStrategy", '{"Type":"x","RollingUpdate":null}'),
        (
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "5%"}},
            "apps.DeploymentStrategy",
            '{"Type":"RollingUpdate","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":"5%"}}',
        ),
        (
            {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [1]}}]},
            "batch.PodFailurePolicy",
            '{"Rules":[{"Action":"Count","OnExitCodes":{"ContainerName":null,"Operator":"In","Values":[1]},"OnPodConditions":null}]}',
        ),
        ({"matchLabels": {"b": "1", "a": "2"}}, "meta.LabelSelector", '{"matchLabels":{"a":"2","b":"1"}}'),
    ],
)
def test_object_is_written_with_go_names_and_all_fields(document: dict[str, Any], kind: str, text: str) -> None:
    """Types of the metadata package have their JSON names and omit empty fields."""
    assert go_json(internal_form(document, kind)) == text


def test_pod_template_has_the_layout_of_the_internal_type() -> None:
    """Metadata is inlined, and fields about the host are in the security context."""
    pod = {
        "hostNetwork": True,
        "nodeSelector": {"b": "1", "a": "2"},
        "containers": [{"name": "c", "livenessProbe": {"httpGet": {"port": 80}}}],
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
    }
    template = default_pod_template_spec({"metadata": {"labels": {"a": "b"}}, "spec": pod})
    shown = internal_form(template, "core.PodTemplateSpec")
    assert list(shown) == ["labels", "Spec"]
    assert list(shown["Spec"]["NodeSelector"]) == ["a", "b"]
    assert shown["Spec"]["SecurityContext"]["HostNetwork"] is True
    assert shown["Spec"]["SecurityContext"]["HostPID"] is False
    assert shown["Spec"]["Volumes"][0]["Secret"]["SecretName"] == "s"
    assert shown["Spec"]["Volumes"][0]["EmptyDir"] is None
    probe = shown["Spec"]["Containers"][0]["LivenessProbe"]
    assert (probe["HTTPGet"]["Port"], probe["Exec"], probe["PeriodSeconds"]) == (80, None, 10)


def test_absent_maps_and_selectors_are_null() -> None:
    """In Go they are nil."""
    assert (map_value({}), map_value(None), label_selector_value(None)) == (None, None, None)
    assert list(map_value({"b": 1, "a": 2}) or ()) == ["a", "b"]


def test_omitted_value_is_not_part_of_the_text() -> None:
    """The error text holds only the detail."""
    assert str(invalid("a", OMITTED, "b")) == "a: Invalid value: b"
