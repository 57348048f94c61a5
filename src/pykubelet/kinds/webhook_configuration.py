"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration: webhooks that admission calls.

Upstream: pkg/registry/admissionregistration/mutatingwebhookconfiguration/strategy.go,
pkg/registry/admissionregistration/validatingwebhookconfiguration/strategy.go,
pkg/apis/admissionregistration/validation/validation.go, pkg/apis/admissionregistration/v1/defaults.go,
staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from pykubelet.api.field_errors import (
    FieldError,
    TypedString,
    duplicate,
    each_invalid,
    invalid,
    items_errors,
    not_supported,
    required,
)
from pykubelet.api.names import dns1035_label_errors, dns1123_subdomain_errors, port_number_errors
from pykubelet.api.normal_form import normal_form
from pykubelet.api.schema import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Resource
from pykubelet.api.serializer import Document
from pykubelet.api.times import Age
from pykubelet.kinds.admission_rules import (
    FAILURE_POLICIES,
    MATCH_POLICIES,
    default_rules,
    match_conditions_errors,
    rule_errors,
)
from pykubelet.kinds.columns import created, name_of
from pykubelet.kinds.kind import Kind, Strategy, first_generation, next_generation
from pykubelet.kinds.metadata import label_selector_errors, metadata_errors
from pykubelet.kinds.rules import OneOf, repeated_indexes

DEFAULT_PORT = 443
_DEFAULTS: Document = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_REINVOCATION = OneOf(("IfNeeded", "Never"))
_SAFE = OneOf(("None", "NoneOnDryRun"))
_SIDE_EFFECTS = OneOf(("None", "NoneOnDryRun", "Some", "Unknown"))
_MAX_SECONDS = 30
_SECONDS = "the timeout value must be between 1 and 30 seconds"
_REVIEW_VERSIONS = ("v1", "v1beta1")
_URL_FORM = "; desired format: https://host[/path]"


@dataclass(frozen=True, slots=True)
class _Leniency:
    """What an update may keep that is no longer valid in a new configuration."""

    side_effects: bool = False
    review_versions: bool = False
    names: bool = False
    conditions: bool = False


def _default(document: Document, *, definition: str, more: Document) -> Document:
    normal = normal_form(document, definition)
    if not normal.get("webhooks"):
        return normal
    return {**normal, "webhooks": [_default_webhook(one, more) for one in normal["webhooks"]]}


def _default_webhook(webhook: Document, more: Document) -> Document:
    full = {**_DEFAULTS, **more, **webhook}
    if webhook.get("rules"):
        full["rules"] = default_rules(webhook["rules"])
    service = full["clientConfig"].get("service")
    if service is not None and "port" not in service:
        full["clientConfig"] = {**full["clientConfig"], "service": {**service, "port": DEFAULT_PORT}}
    return full


def _validate_create(document: Document, leniency: _Leniency = _Leniency()) -> list[FieldError]:  # noqa: B008  frozen
    webhooks: Sequence[Document] = document.get("webhooks") or ()
    repeated = set() if leniency.names else repeated_indexes(webhook["name"] for webhook in webhooks)
    errors = metadata_errors(document["metadata"], namespaced=False)
    for index, webhook in enumerate(webhooks):
        at = f"webhooks[{index}]"
        errors += _webhook_errors(webhook, at, leniency)
        errors += _versions_errors(
            webhook.get("admissionReviewVersions") or (), f"{at}.admissionReviewVersions", leniency
        )
        if index in repeated and webhook["name"]:
            errors.append(duplicate(f"{at}.name", webhook["name"]))
    return errors


def _webhook_errors(webhook: Document, path: str, leniency: _Leniency) -> list[FieldError]:
    errors = _name_errors(webhook["name"], f"{path}.name")
    errors += items_errors(webhook.get("rules") or (), rule_errors, f"{path}.rules")
    errors += FAILURE_POLICIES.errors(webhook.get("failurePolicy"), f"{path}.failurePolicy")
    errors += MATCH_POLICIES.errors(webhook.get("matchPolicy"), f"{path}.matchPolicy")
    allowed, effects = _SIDE_EFFECTS if leniency.side_effects else _SAFE, webhook.get("sideEffects")
    if effects is None:
        errors.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(allowed.values)}"))
    elif effects not in allowed.values:
        errors.append(not_supported(f"{path}.sideEffects", TypedString(effects), allowed.values))
    seconds = webhook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= _MAX_SECONDS:
        errors.append(invalid(f"{path}.timeoutSeconds", seconds, _SECONDS))
    errors += label_selector_errors(webhook.get("namespaceSelector"), f"{path}.namespaceSelector")
    errors += label_selector_errors(webhook.get("objectSelector"), f"{path}.objectSelector")
    errors += _REINVOCATION.errors(webhook.get("reinvocationPolicy"), f"{path}.reinvocationPolicy")
    errors += client_config_errors(webhook["clientConfig"], f"{path}.clientConfig")
    if leniency.conditions:
        return errors
    return errors + match_conditions_errors(webhook.get("matchConditions") or (), f"{path}.matchConditions")


def _name_errors(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if problems := dns1123_subdomain_errors(name):
        return [invalid(path, name, ",".join(problems))]
    if name.count(".") < 2:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _versions_errors(versions: Sequence[str], path: str, leniency: _Leniency) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(_REVIEW_VERSIONS)}")]
    errors: list[FieldError] = []
    repeated = repeated_indexes(versions)
    for index, version in enumerate(versions):
        at = f"{path}[{index}]"
        if index in repeated:
            errors.append(invalid(at, version, "duplicate version"))
        else:
            errors += each_invalid(at, version, dns1035_label_errors(version))
    if not leniency.review_versions and not set(versions) & set(_REVIEW_VERSIONS):
        detail = f"must include at least one of {', '.join(_REVIEW_VERSIONS)}"
        errors.append(invalid(path, list(versions), detail))
    return errors


def client_config_errors(client: Document, path: str) -> list[FieldError]:
    """Validates how a webhook is reached: by URL or through a Service."""
    url, service = client.get("url"), client.get("service")
    if (url is None) is (service is None):
        return [required(path, "exactly one of url or service is required")]
    return _url_errors(url, f"{path}.url") if url is not None else _service_errors(service or {}, f"{path}.service")


def _url_errors(text: str, path: str) -> list[FieldError]:
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError as error:
        return [required(path, f"url must be a valid URL: {error}{_URL_FORM}")]
    errors: list[FieldError] = []
    if url.scheme != "https":
        errors.append(invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}"))
    user, _, host = url.netloc.rpartition("@")
    if not host:
        errors.append(invalid(path, "", f"host must be specified{_URL_FORM}"))
    if "@" in url.netloc:
        errors.append(invalid(path, user, "user information is not permitted in the URL"))
    if url.fragment:
        errors.append(invalid(path, url.fragment, "fragments are not permitted in the URL"))
    if url.query:
        errors.append(invalid(path, url.query, "query parameters are not permitted in the URL"))
    return errors


def _service_errors(service: Document, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{name}") for name in ("name", "namespace") if not service.get(name)]
    port = service.get("port", 0)
    if problems := port_number_errors(port):
        errors.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(problems)}"))
    where, at = service.get("path"), f"{path}.path"
    if not where or where == "/":
        return errors
    if where == "//":
        return [*errors, invalid(at, where, "segment[0] may not be empty")]
    if not where.startswith("/"):
        errors.append(invalid(at, where, "must start with a '/'"))
    for index, segment in enumerate(where[1:].removesuffix("/").split("/")):
        problems = dns1123_subdomain_errors(segment) if segment else []
        details = [f"segment[{index}]: {problem}" for problem in problems] or (
            [] if segment else [f"segment[{index}] may not be empty"]
        )
        errors += [invalid(at, where, detail) for detail in details]
    return errors


def _validate_update(new: Document, old: Document) -> list[FieldError]:
    before: Sequence[Document] = old.get("webhooks") or ()
    after: Sequence[Document] = new.get("webhooks") or ()
    names = [webhook["name"] for webhook in before]
    versions = [webhook.get("admissionReviewVersions") or () for webhook in before]
    leniency = _Leniency(
        side_effects=any(webhook.get("sideEffects") not in _SAFE.values for webhook in before),
        review_versions=any(each and not set(each) & set(_REVIEW_VERSIONS) for each in versions),
        names=len(set(names)) < len(names),
        conditions=[one.get("matchConditions") for one in before] == [one.get("matchConditions") for one in after],
    )
    return _validate_create(new, leniency)


def _prepare_update(new: Document, old: Document) -> Document:
    return next_generation(new, old, changed=new.get("webhooks") != old.get("webhooks"))


def _cells(document: Document, age: Age) -> list[Any]:
    """Cells: name, number of webhooks, age."""
    return [name_of(document), len(document.get("webhooks") or ()), created(document, age)]


def _kind(resource: Resource, more: Document) -> Kind:
    definition = f"admissionregistration.v1.{resource.kind}"
    return Kind(
        resource=resource,
        definition=definition,
        categories=("api-extensions",),
        strategy=Strategy(
            default=partial(_default, definition=definition, more=more),
            prepare_create=first_generation,
            validate_create=_validate_create,
            prepare_update=_prepare_update,
            validate_update=_validate_update,
            allows_unconditional_update=False,
        ),
        cells=_cells,
    )


MUTATING = _kind(MUTATING_WEBHOOK_CONFIGURATIONS, {"reinvocationPolicy": "Never"})
VALIDATING = _kind(VALIDATING_WEBHOOK_CONFIGURATIONS, {})
