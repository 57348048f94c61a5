"""Which requests webhooks and policies match: rules, scope, selectors, equivalent resources, exclusions."""

from typing import Any

import pytest

from pykubelet.api.errors import NotFound
from pykubelet.apiserver.admission.interfaces import AdmissionAttributes
from pykubelet.apiserver.admission.plugin.webhook.predicates import (
    AdmissionMatcher,
    KindName,
    MatchCriteria,
    ResourceName,
    is_exempt,
)
from pykubelet.apiserver.registry import BUILT_IN_KINDS, ServedKinds
from pykubelet.apiserver.request import UserInfo

NAMESPACES = {"shop": {"metadata": {"name": "shop", "labels": {"team": "web"}}}}
MATCHER = AdmissionMatcher(ServedKinds(BUILT_IN_KINDS), NAMESPACES.get)


def write(resource: str, verb: Any = "create", version: str = "v1", **fields: Any) -> AdmissionAttributes:
    served = next(
        kind for kind in BUILT_IN_KINDS if kind.resource.group_resource == resource and kind.resource.version == version
    )
    fields.setdefault("namespace", "shop" if served.resource.namespaced else "")
    return AdmissionAttributes(user=UserInfo("u"), verb=verb, served=served, name="one", **fields)


def criteria(**fields: Any) -> MatchCriteria:
    names = {"groups": "apiGroups", "versions": "apiVersions"}
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}
    own = ("groups", "versions", "resources", "operations", "scope", "resourceNames")
    rule |= {names.get(name, name): fields.pop(name) for name in own if name in fields}
    return MatchCriteria.of({"rules": [rule], **fields})


POD = {"metadata": {"name": "one", "labels": {"app": "a"}}}


@pytest.mark.parametrize(
    ("stated", "request_of", "matches"),
    [
        ({}, write("pods"), True),
        ({"operations": ["UPDATE"]}, write("pods"), False),
        ({"operations": ["UPDATE", "CREATE"]}, write("pods"), True),
        ({"operations": ["CONNECT"]}, write("pods", "connect", subresource="exec"), False),
        (
            {"operations": ["CONNECT"], "resources": ["pods/attach"]},
            write("pods", "connect", subresource="exec"),
            False,
        ),
        ({"operations": ["CONNECT"], "resources": ["pods/exec"]}, write("pods", "connect", subresource="exec"), True),
        ({"resources": ["pods/*"]}, write("pods"), True),
        ({"resources": ["pods/*"]}, write("pods", "update", subresource="status"), True),
        ({"resources": ["*/status"]}, write("pods", "update", subresource="status"), True),
        ({"resources": ["*/status"]}, write("pods", "update"), False),
        ({"resources": ["*"]}, write("pods", "update", subresource="status"), False),
        ({"resources": ["*/*"]}, write("pods", "update", subresource="status"), True),
        ({"groups": ["apps"]}, write("pods"), False),
        ({"groups": [""]}, write("pods"), True),
        ({"versions": ["v1beta1"]}, write("pods"), False),
        ({"scope": "Namespaced"}, write("pods"), True),
        ({"scope": "Cluster"}, write("pods"), False),
        ({"scope": "Cluster"}, write("nodes"), True),
        ({"scope": "Namespaced"}, write("nodes"), False),
        ({"scope": "Namespaced"}, write("namespaces", namespace="shop"), False),
        ({"scope": "Cluster"}, write("namespaces", namespace="shop"), True),
        ({"resourceNames": ["other"]}, write("pods"), False),
        ({"resourceNames": ["one"]}, write("pods"), True),
        ({"objectSelector": {"matchLabels": {"app": "a"}}}, write("pods"), True),
        ({"objectSelector": {"matchLabels": {"app": "b"}}}, write("pods"), False),
        ({"objectSelector": {}}, write("pods"), True),
        ({"namespaceSelector": {"matchLabels": {"team": "web"}}}, write("pods"), True),
        ({"namespaceSelector": {"matchLabels": {"team": "db"}}}, write("pods"), False),
        ({"namespaceSelector": {"matchLabels": {"team": "db"}}}, write("nodes"), True),
        ({"namespaceSelector": {"matchLabels": {"app": "a"}}}, write("namespaces", namespace="shop"), True),
        ({"namespaceSelector": {"matchLabels": {"app": "a"}}}, write("namespaces", "delete", namespace="shop"), False),
    ],
)
def test_criteria_match_when_rules_and_selectors_do(
    stated: dict[str, Any], request_of: AdmissionAttributes, matches: bool
) -> None:
    found = MATCHER.match(criteria(**stated), request_of, POD, None)

    assert (found is not None) is matches


def test_the_old_object_counts_for_the_object_selector_too() -> None:
    wanted = criteria(objectSelector={"matchLabels": {"app": "a"}})

    assert MATCHER.match(wanted, write("pods", "delete"), None, POD)
    assert not MATCHER.match(wanted, write("pods", "delete"), None, {"metadata": {}})


def test_excluded_resources_do_not_match() -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"]}
    stated = {
        "resourceRules": [{**rule, "resources": ["*"]}],
        "excludeResourceRules": [{**rule, "resources": ["secrets"]}],
    }
    wanted = MatchCriteria.of(stated, "resourceRules")

    assert MATCHER.match(wanted, write("pods"), POD, None)
    assert not MATCHER.match(wanted, write("secrets"), POD, None)


def test_an_equivalent_resource_matches_unless_the_policy_is_exact() -> None:
    stated = {"groups": ["autoscaling"], "versions": ["v1"], "resources": ["horizontalpodautoscalers"]}
    request = write("horizontalpodautoscalers.autoscaling", version="v2")

    found = MATCHER.match(criteria(**stated), request, POD, None)
    assert found is not None
    assert found.resource == ResourceName("autoscaling", "v1", "horizontalpodautoscalers")
    assert found.kind == KindName("autoscaling", "v1", "HorizontalPodAutoscaler")
    assert not MATCHER.match(criteria(**stated, matchPolicy="Exact"), request, POD, None)
    own = MATCHER.match(criteria(), request, POD, None)
    assert own is not None
    assert own.served is request.served


def test_a_missing_namespace_is_an_error_only_if_the_rules_match() -> None:
    stated = {"namespaceSelector": {"matchLabels": {"team": "web"}}}

    with pytest.raises(NotFound, match='namespaces "gone" not found'):
        MATCHER.match(criteria(**stated), write("pods", namespace="gone"), POD, None)
    assert not MATCHER.match(criteria(**stated, resources=["secrets"]), write("pods", namespace="gone"), POD, None)


def test_the_kind_of_a_subresource_is_that_of_its_object() -> None:
    found = MATCHER.match(criteria(resources=["*/*"]), write("pods", subresource="eviction"), POD, None)

    assert found is not None
    assert found.kind == KindName("policy", "v1", "Eviction")


@pytest.mark.parametrize(
    ("resource", "exempt"),
    [
        ("pods", False),
        ("tokenreviews.authentication.k8s.io", True),
        ("subjectaccessreviews.authorization.k8s.io", True),
        ("roles.rbac.authorization.k8s.io", False),
        ("customresourcedefinitions.apiextensions.k8s.io", False),
    ],
)
def test_reviews_are_exempt(resource: str, exempt: bool) -> None:
    assert is_exempt(write(resource)) is exempt
