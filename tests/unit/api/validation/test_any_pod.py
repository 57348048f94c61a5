"""Properties of defaults and validation, over pods of every shape that strict reading lets through."""

import copy
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pykubelet.api.defaults.pod_defaults import default_pod, default_pod_template_spec
from pykubelet.api.defaults.zero_values import without_zero_values
from pykubelet.api.generated.core import Pod
from pykubelet.api.schema import Field, definitions
from pykubelet.api.strict import check_object
from pykubelet.api.validation.field_errors import aggregate_text, list_text
from pykubelet.api.validation.options import API_SERVER_OPTIONS, KUBELET_OPTIONS
from pykubelet.api.validation.pod import validate_pod_create
from pykubelet.api.validation.static_pods import UnknownVolumeError, api_references
from pykubelet.api.wire import from_document, to_document, without_nulls

_TEXTS = (
    *(
        "",
        "a",
        "web",
        "Bad_Name",
        "x/y",
        "a.b/c",
        "..",
        "../x",
        "/abs",
        "A=b",
        "é\n",
        "x" * 300,
        "1",
        "latest",
        "a:b",
        ":80",
    ),
    *(
        "Always",
        "Never",
        "OnFailure",
        "Exists",
        "In",
        "Gt",
        "windows",
        "linux",
        "Localhost",
        "TCP",
        "Managed",
        "None",
        "v1",
    ),
    *(
        "metadata.name",
        "metadata.labels['a']",
        "spec.host",
        "limits.cpu",
        "limits.hugepages-2Mi",
        "SIGTERM",
        "::1",
        "iqn.x",
    ),
    *(
        "net.core.x",
        "CAP_SYS_ADMIN",
        "Unmasked",
        "Bidirectional",
        "DoNotSchedule",
        "NoExecute",
        "Merge",
        "domain\\user",
    ),
)
_KEYS = (
    "a",
    "cpu",
    "memory",
    "hugepages-2Mi",
    "example.com/gpu",
    "storage",
    "kubernetes.io/config.mirror",
    "pods",
    "x y",
)
_SCALARS: dict[str, tuple[Any, ...]] = {
    "string": _TEXTS,
    "integer": (-1, 0, 1, 80, 255, 600, 70000, 2**40),
    "number": (0, 1.5),
    "boolean": (True, False),
    "bytes": ("", "YQ=="),
    "time": ("2024-01-01T00:00:00Z",),
    "quantity": ("1", "0.5", "1Gi", "-1", "1.00001", 2, 0.25, "0"),
    "int-or-string": (0, 80, "http", "", "--"),
    "any": ({}, "x", None),
}


def _value(random: Any, field: Field, depth: int) -> Any:
    if field.type in _SCALARS:
        return random.choice(_SCALARS[field.type])
    if field.type == "ref":
        return _document(random, field.ref, depth + 1)
    items = field.items
    assert items is not None
    count = random.choice((0, 1, 1, 2))
    if field.type == "array":
        return [_value(random, items, depth) for _ in range(count)]
    return {random.choice(_KEYS): _value(random, items, depth) for _ in range(count)}


def _document(random: Any, definition: str, depth: int = 0) -> dict[str, Any]:
    chance = 1.0 if depth == 0 else 0.45 if depth < 3 else 0.6
    fields = definitions()[definition].fields
    chosen = {name: field for name, field in fields.items() if depth < 9 and random.random() < chance}
    return {name: _value(random, field, depth) for name, field in chosen.items() if random.random() < 0.97 or depth}


def _pod(random: Any) -> dict[str, Any]:
    pod = _document(random, "core.v1.Pod") | {"apiVersion": "v1", "kind": "Pod"}
    assert check_object(pod, "core.v1.Pod") == []
    return pod


_PODS = st.randoms(use_true_random=True).map(_pod)
_SETTINGS = settings(max_examples=150, deadline=None)


@given(_PODS)
@_SETTINGS
def test_default_pod_is_idempotent_and_leaves_its_input_alone(pod: dict[str, Any]) -> None:
    """A second pass finds nothing to fill in, and the caller's document is never written to."""
    before = copy.deepcopy(pod)
    once = default_pod(pod)
    assert pod == before
    assert default_pod(once) == once
    template = default_pod_template_spec(pod)
    assert pod == before
    assert default_pod_template_spec(template) == template


@given(_PODS)
@_SETTINGS
def test_default_pod_drops_exactly_what_a_typed_writer_drops(pod: dict[str, Any]) -> None:
    """Structs know which zeros mean something: none of those is lost, and none of the others is kept."""
    plain = without_nulls(pod)
    cleaned = {part: without_zero_values(plain.get(part, {}), part) for part in ("metadata", "spec")}
    typed = from_document({part: plain.get(part, {}) for part in cleaned}, Pod)
    assert from_document(cleaned, Pod) == typed
    assert [*_unwritten(cleaned, to_document(typed), "pod")] == []


def _unwritten(ours: Any, written: Any, path: str) -> Iterator[str]:
    """The fields that a typed writer would leave out; lists that are never left out are no fault of ours."""
    if isinstance(ours, dict):
        for name, value in ours.items():
            if name in written:
                yield from _unwritten(value, written[name], f"{path}.{name}")
            elif name != "managedFields" and value != []:
                yield f"{path}.{name}"
    elif isinstance(ours, list):
        for index, (item, other) in enumerate(zip(ours, written, strict=True)):
            yield from _unwritten(item, other, f"{path}[{index}]")


@given(_PODS)
@_SETTINGS
def test_validation_always_answers_and_can_be_printed(pod: dict[str, Any]) -> None:
    """No pod of the right types makes validation fail, whatever nonsense it holds."""
    defaulted = default_pod(pod)
    before = json.dumps(defaulted)
    for options in (KUBELET_OPTIONS, API_SERVER_OPTIONS):
        errors = validate_pod_create(defaulted, options)
        assert list_text(errors).startswith("[")
        assert not errors or aggregate_text(errors)
    with suppress(UnknownVolumeError):
        assert all(api_references(defaulted))
    assert json.dumps(defaulted) == before
