"""Properties of defaults and validation, over pods of every shape that strict decoding accepts."""

import copy
import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from any_document import any_document
from pykubelet.api.field_errors import aggregate_text, list_text
from pykubelet.api.generated.core import Pod
from pykubelet.api.normal_form import normal_form
from pykubelet.api.serializer import from_document, to_document, without_nulls
from pykubelet.api.strict import check_object
from pykubelet.kinds.pod.defaults import default_pod, default_pod_template_spec
from pykubelet.kinds.pod.features import API_SERVER_OPTIONS, KUBELET_OPTIONS
from pykubelet.kinds.pod.validation import validate_pod_create
from pykubelet.kinds.pod.visitors import UnknownVolumeError, api_references


def _pod(random: Any) -> dict[str, Any]:
    pod = any_document(random, "core.v1.Pod") | {"apiVersion": "v1", "kind": "Pod"}
    assert check_object(pod, "core.v1.Pod") == []
    return pod


_PODS = st.randoms(use_true_random=True).map(_pod)
_SETTINGS = settings(max_examples=150, deadline=None)


@given(_PODS)
@_SETTINGS
def test_default_pod_is_idempotent_and_leaves_its_input_alone(pod: dict[str, Any]) -> None:
    """A second pass changes nothing, and the caller's document is not modified."""
    before = copy.deepcopy(pod)
    once = default_pod(pod)
    assert pod == before
    assert default_pod(once) == once
    template = default_pod_template_spec(pod)
    assert pod == before
    assert default_pod_template_spec(template) == template


@given(_PODS)
@_SETTINGS
def test_normal_form_keeps_exactly_what_a_typed_writer_keeps(pod: dict[str, Any]) -> None:
    """Structs know which zero values have a meaning: the normal form keeps those and drops the others."""
    plain = without_nulls(pod)
    written = to_document(from_document(plain, Pod))
    assert _known(normal_form(written, "core.v1.Pod")) == _known(normal_form(plain, "core.v1.Pod"))


def _known(value: Any) -> Any:
    """The value without what Structs do not know: managed fields, and lists that are never omitted."""
    if isinstance(value, dict):
        return {name: _known(item) for name, item in value.items() if item != [] and name != "managedFields"}
    return [_known(item) for item in value] if isinstance(value, list) else value


@given(_PODS)
@_SETTINGS
def test_validation_returns_printable_errors_for_any_pod(pod: dict[str, Any]) -> None:
    """Validation raises nothing for a pod of the right types, whatever its values are."""
    defaulted = default_pod(pod)
    before = json.dumps(defaulted)
    for options in (KUBELET_OPTIONS, API_SERVER_OPTIONS):
        errors = validate_pod_create(defaulted, options)
        assert list_text(errors).startswith("[")
        assert not errors or aggregate_text(errors)
    with suppress(UnknownVolumeError):
        assert all(api_references(defaulted))
    assert json.dumps(defaulted) == before
