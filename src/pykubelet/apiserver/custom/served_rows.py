"""A definition as rows of the table of kinds: one for each version that is served.

In: a CustomResourceDefinition whose names were accepted. Out: `Served` rows.

Upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go (getOrCreateServingInfoFor)
and customresource_discovery_controller.go
"""

import re
from functools import lru_cache

from pykubelet.api.resources import Resource
from pykubelet.api.wire import Document, decode_document, encode
from pykubelet.apiserver.custom.conditions import is_true
from pykubelet.apiserver.custom.kind import CustomKind
from pykubelet.apiserver.custom.objects import custom_strategy
from pykubelet.apiserver.custom.scale import ScaleRules
from pykubelet.apiserver.custom.schema import Schema, compile_schema
from pykubelet.apiserver.served import ScalePaths, Served
from pykubelet.apiserver.tables.custom_columns import custom_columns

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")


def served_rows(definition: Document) -> tuple[Served, ...]:
    """What is served of a definition; nothing before it is established."""
    names = (definition.get("status") or {}).get("acceptedNames") or {}
    if not is_true(definition, "Established") or not names.get("plural") or not names.get("kind"):
        return ()
    return tuple(_row(definition, version) for version in definition["spec"]["versions"] if version.get("served"))


def _row(definition: Document, version: Document) -> Served:
    spec = definition["spec"]
    names = definition["status"]["acceptedNames"]
    group = spec["group"]
    resource = Resource(
        group, version["name"], names["plural"], names["kind"], namespaced=spec.get("scope") == "Namespaced"
    )
    structural = version.get("schema", {}).get("openAPIV3Schema")
    subresources = version.get("subresources", {})
    rules = _scale_rules(subresources.get("scale"))
    kind = CustomKind(
        api_version=resource.api_version,
        stored_api_version=f"{group}/{_stored(spec)}",
        list_kind=names.get("listKind") or f"{names['kind']}List",
        schema=_schema(encode(structural)),
        columns=custom_columns(version.get("additionalPrinterColumns", ())),
        scale=rules,
        passes_through=len(spec["versions"]) == 1 and definition["metadata"].get("generation", 1) == 1,
    )
    return Served(
        resource=resource,
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        verbs=VERBS,
        subresources=tuple(name for name in ("status", "scale") if subresources.get(name) is not None),
        structural=structural,
        custom=kind,
        strategy=custom_strategy(
            kind,
            resource,
            has_status=subresources.get("status") is not None,
            selectable=[each.get("jsonPath", "") for each in version.get("selectableFields", ())],
            is_terminating=is_true(definition, "Terminating"),
        ),
        warnings=_deprecation(spec, version),
        scale=_scale_paths(rules),
    )


@lru_cache(maxsize=256)
def _schema(text: bytes) -> Schema:
    """Compiled once per text: a definition's status changes more often than its schema."""
    return compile_schema(decode_document(text))


def _stored(spec: Document) -> str:
    name: str = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return name


def _scale_rules(stated: Document | None) -> ScaleRules | None:
    if stated is None:
        return None
    return ScaleRules(stated["specReplicasPath"], stated["statusReplicasPath"], stated.get("labelSelectorPath", ""))


def _scale_paths(rules: ScaleRules | None) -> ScalePaths:
    if rules is None:
        return ScalePaths()
    return ScalePaths(
        *(path.removeprefix(".") for path in (rules.spec_replicas, rules.status_replicas, rules.selector))
    )


def _deprecation(spec: Document, version: Document) -> tuple[str, ...]:
    if not version.get("deprecated"):
        return ()
    if said := version.get("deprecationWarning"):
        return (said,)
    group, kind = spec["group"], spec["names"]["kind"]
    text = f"{group}/{version['name']} {kind} is deprecated"
    better = [
        each["name"]
        for each in spec["versions"]
        if each.get("served") and not each.get("deprecated") and _order(each["name"]) > _order(version["name"])
    ]
    return (f"{text}; use {group}/{max(better, key=_order)} {kind}" if better else text,)


def _order(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2 above v1 above v1beta1, and anything else below."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, "".join(chr(0x10FFFF - ord(char)) for char in version))
    level = {"alpha": 1, "beta": 2}.get(match[2] or "", 3)
    return (level, int(match[1]), int(match[3] or 0), "")
