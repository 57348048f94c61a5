"""Bad values that are whole objects, as Go's internal types would be written.

The API server complains about its internal types, which have Go's field names and write every field. Documents have
wire names and leave out what is empty; these functions translate the few objects that appear in messages.

Upstream: pkg/apis/core/types.go

Values of a document as Go prints them: in the cells of tables, in field selectors and in messages.

Upstream: fmt.Print and encoding/json of Go's standard library

An object as Go writes the API server's internal type of it: what messages show as a bad value.

In: an object as it stands in a document, and the name of its internal type (`core.PodTemplateSpec`). Out: the same with
the names, the order and the empty fields that the internal type has. The table `generated/internal_types.json` is read
at the first use.

Upstream: pkg/apis/*/types.go, written by encoding/json in
staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go

What differs between two objects, as messages of the API server show it.

In: both objects in internal form. Out: a unified diff of their JSON, three lines around each change, without a header.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/diff/diff.go
"""

import json
from decimal import Decimal
from difflib import unified_diff
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from pykubelet.aio.msgspec_types import register_type
from pykubelet.api.field_errors import go_escaped, go_json
from pykubelet.api.serializer import Document

_HEADER_LINES = 2
# Each field: Go's name, the wire's name, what stands for absent, and the fields of an object in it.
_Fields = tuple[tuple[str, str, Any, "_Fields | None"], ...]
_PROFILE: _Fields = (("Type", "type", "", None), ("LocalhostProfile", "localhostProfile", None, None))
_SELINUX: _Fields = tuple((name.capitalize(), name, "", None) for name in ("user", "role", "type", "level"))
_WINDOWS: _Fields = (
    ("GMSACredentialSpecName", "gmsaCredentialSpecName", None, None),
    ("GMSACredentialSpec", "gmsaCredentialSpec", None, None),
    ("RunAsUserName", "runAsUserName", None, None),
    ("HostProcess", "hostProcess", None, None),
)
_SECURITY_CONTEXT: _Fields = (
    ("Capabilities", "capabilities", None, (("Add", "add", None, None), ("Drop", "drop", None, None))),
    ("Privileged", "privileged", None, None),
    ("SELinuxOptions", "seLinuxOptions", None, _SELINUX),
    ("WindowsOptions", "windowsOptions", None, _WINDOWS),
    ("RunAsUser", "runAsUser", None, None),
    ("RunAsGroup", "runAsGroup", None, None),
    ("RunAsNonRoot", "runAsNonRoot", None, None),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", None, None),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", None, None),
    ("ProcMount", "procMount", None, None),
    ("SeccompProfile", "seccompProfile", None, _PROFILE),
    ("AppArmorProfile", "appArmorProfile", None, _PROFILE),
)
_RESOURCE_CLAIM: _Fields = (
    ("Name", "name", "", None),
    ("ResourceClaimName", "resourceClaimName", None, None),
    ("ResourceClaimTemplateName", "resourceClaimTemplateName", None, None),
)
_TRUST_BUNDLE: _Fields = (
    ("Name", "name", None, None),
    ("SignerName", "signerName", None, None),
    ("LabelSelector", "labelSelector", None, None),
    ("Optional", "optional", None, None),
    ("Path", "path", "", None),
)
_RESIZE_POLICY: _Fields = (("ResourceName", "resourceName", "", None), ("RestartPolicy", "restartPolicy", "", None))
_EMPTY = {"string": "", "integer": 0, "boolean": False, "quantity": "0", "int-or-string": 0, "time": None, "any": None}
# The internal type keeps these with the security context, the wire beside it.
_HOST_FIELDS = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
# From here on JSON has an exponent.
_LONGEST_WHOLE = 1e21


def go_diff(old: Document, new: Document) -> str:
    """The changes that lead from the old object to the new."""
    lines = list(unified_diff(_lines(old), _lines(new), n=3))
    return "".join(lines[_HEADER_LINES:])


def _lines(value: Document) -> list[str]:
    text = go_escaped(json.dumps(value, indent=1, ensure_ascii=False))
    return [f"{line}\n" for line in text.split("\n")]


def profile_value(profile: Document) -> Document:
    """A seccomp or AppArmor profile."""
    return _internal(profile, _PROFILE)


def security_context_value(context: Document) -> Document:
    """The security context of a container."""
    return _internal(context, _SECURITY_CONTEXT)


def resource_claim_value(claim: Document) -> Document:
    """One of a pod's resource claims."""
    return _internal(claim, _RESOURCE_CLAIM)


def trust_bundle_value(projection: Document) -> Document:
    """The projection of a cluster trust bundle."""
    return _internal(projection, _TRUST_BUNDLE)


def resize_policies_value(policies: list[Document]) -> list[Document]:
    """The resize policies of a container."""
    return [_internal(policy, _RESIZE_POLICY) for policy in policies]


def _internal(document: Document, fields: _Fields) -> Document:
    return {
        go_name: _internal(document[wire_name], nested)
        if nested is not None and wire_name in document
        else document.get(wire_name, absent)
        for go_name, wire_name, absent, nested in fields
    }


@cache
def _types() -> dict[str, list[tuple[str, str, str]]]:
    data = resources.files("pykubelet.api.generated").joinpath("internal_types.json").read_bytes()
    return msgspec.json.decode(data, type=register_type(dict[str, list[tuple[str, str, str]]]))


def internal_form(document: Document, name: str) -> Document:
    """The object in the form of the internal type of this name."""
    if name == "core.PodSpec" and "securityContext" in document:
        host = {field: document[field] for field in _HOST_FIELDS if field in document}
        document = {**document, "securityContext": {**document["securityContext"], **host}}
    result: Document = {}
    for shown, wire, kind in _types()[name]:
        if kind.startswith("="):
            # Metadata stands among the other fields in Go, and in a field of its own on the wire.
            part = document.get("metadata") or {} if kind == "=meta.ObjectMeta" else document
            result |= internal_form(part, kind[1:])
            continue
        value = _value(document.get(wire), kind.removeprefix("?"))
        if value or not kind.startswith("?"):
            result[shown] = value
    return result


def label_selector_value(selector: Document | None) -> Document | None:
    """A label selector, or null where there is none."""
    return None if selector is None else internal_form(selector, "meta.LabelSelector")


def map_value(values: Document | None) -> Document | None:
    """A map of texts, such as labels: sorted by key; null where there is none."""
    return dict(sorted(values.items())) if values else None


def _value(value: Any, kind: str) -> Any:
    if kind in _EMPTY:
        return _EMPTY[kind] if value is None else value
    if kind.startswith(("*", "[]", "{}")):
        if value is None:
            return None
        if kind.startswith("*"):
            return _value(value, kind[1:])
        if kind.startswith("[]"):
            return [_value(item, kind[2:]) for item in value]
        return {key: _value(item, kind[2:]) for key, item in sorted(value.items())}
    if value is not None and not isinstance(value, dict):
        # Nobody has looked at the types of managed fields, which stand in templates of claims too.
        return value
    return internal_form(value or {}, kind)


def printed(value: Any) -> str:
    """Any value as text: scalars as they are, the rest as JSON."""
    match value:
        case None:
            return "<no value>"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float():
            return go_float(value)
        case dict() | list():
            return go_json(_ordered(value))
        case _:
            return str(value)


def go_float(value: float) -> str:
    """The shortest digits of a number, as Go prints them: with an exponent below 1e-4 and from 1e6 on."""
    digits, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    if -5 < int(exponent) < 6:
        return repr(value).removesuffix(".0")
    return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"


def _ordered(value: Any) -> Any:
    """The same with the keys of objects in order and whole numbers without a fraction, as Go writes them."""
    match value:
        case dict():
            return {key: _ordered(value[key]) for key in sorted(value)}
        case list():
            return [_ordered(item) for item in value]
        case float() if value.is_integer() and abs(value) < _LONGEST_WHOLE:
            return int(value)
        case _:
            return value
