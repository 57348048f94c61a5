"""Formats by name: `format.dns1123Label().validate(self.name)`.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/format.go
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pykubelet.api.names import (
    dns1035_label_errors,
    dns1123_label_errors,
    dns1123_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)
from pykubelet.apiserver.custom.cel.library.urls import UrlError, read_url
from pykubelet.apiserver.custom.cel.values import NONE, Optional, add_kind
from pykubelet.apiserver.custom.formats import has_format

_Rule = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format of texts, and what is wrong with a text that has it not."""

    name: str
    errors: _Rule = field(compare=False)


add_kind(NamedFormat, "kubernetes.NamedFormat")


def _prefix(rule: _Rule) -> _Rule:
    """The rule for the beginning of a name, which may end in a dash."""
    return lambda text: rule(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri_errors(text: str) -> list[str]:
    try:
        read_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _has(format: str, complaint: str) -> _Rule:
    return lambda text: [] if has_format(format, text) else [complaint]


_FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", dns1123_label_errors),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", dns1123_subdomain_errors),
    "dns1035Label": NamedFormat("DNS1035Label", dns1035_label_errors),
    "qualifiedName": NamedFormat("QualifiedName", qualified_name_errors),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(dns1123_label_errors)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(dns1123_subdomain_errors)),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(dns1035_label_errors)),
    "labelValue": NamedFormat("LabelValue", label_value_errors),
    "uri": NamedFormat("URI", _uri_errors),
    "uuid": NamedFormat("uuid", _has("uuid", "does not match the UUID format")),
    "byte": NamedFormat("byte", _has("byte", "invalid base64")),
    "date": NamedFormat("date", _has("date", "invalid date")),
    "datetime": NamedFormat("datetime", _has("datetime", "invalid datetime")),
}


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _validated(format: NamedFormat, text: str) -> Optional:
    errors = format.errors(text)
    return Optional(errors) if errors else NONE


def _constant(format: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: format


OVERLOADS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("format.named(string) -> optional<kubernetes.NamedFormat>", _named),
    ("(kubernetes.NamedFormat).validate(string) -> optional<list<string>>", _validated),
    *((f"format.{name}() -> kubernetes.NamedFormat", _constant(format)) for name, format in _FORMATS.items()),
)
