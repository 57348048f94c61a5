"""Command line arguments parsed as resources and names."""

import pytest

from pykubelet.api.schema import DEPLOYMENTS, EVENTS, NODES, PODS, SERVICES, Resource
from pykubelet.cli.actions.resource_args import (
    AmbiguousArguments,
    RequestedResource,
    UnknownResourceType,
    requested_resources,
    resource_of,
    resources_of,
    served_kind,
)
from pykubelet.client.discovery import ServedResource

ALL = ("all",)
POD = ServedResource(PODS, "pod", ("po",), ALL)
SERVICE = ServedResource(SERVICES, "service", ("svc",), ALL)
NODE = ServedResource(NODES, "node", ("no",))
EVENT = ServedResource(EVENTS, "event", ("ev",))
DEPLOYMENT = ServedResource(DEPLOYMENTS, "deployment", ("deploy",), ALL)
NEW_EVENT = ServedResource(Resource("events.k8s.io", "v1", "events", "Event"), "event", ("ev",))
WIDGET = ServedResource(Resource("example.com", "v2", "widgets", "Widget"), "widget", ("wg",))
OLD_WIDGET = ServedResource(Resource("example.com", "v1", "widgets", "Widget"), "widget", ("wg",))
CATALOGUE = (POD, SERVICE, NODE, EVENT, DEPLOYMENT, NEW_EVENT, WIDGET, OLD_WIDGET)


@pytest.mark.parametrize(
    ("word", "served"),
    [
        ("pods", POD),
        ("pod", POD),
        ("po", POD),
        ("Pod", POD),
        ("deployments.apps", DEPLOYMENT),
        ("deploy.apps", DEPLOYMENT),
        ("deployments.v1.apps", DEPLOYMENT),
        ("pods.v1.", POD),
        ("events", EVENT),
        ("events.events.k8s.io", NEW_EVENT),
        ("wg", WIDGET),
        ("widgets.example.com", WIDGET),
        ("widgets.v1.example.com", OLD_WIDGET),
    ],
)
def test_resource_is_found_by_any_of_its_names(word: str, served: ServedResource) -> None:
    """Plural, singular, short name, with group, with version and group; the first one served wins."""
    assert resource_of(word, CATALOGUE) == served


@pytest.mark.parametrize("word", ["nothing", "pods.apps", "widgets.v3.example.com"])
def test_unknown_resource_type_raises_the_error_of_kubectl(word: str) -> None:
    with pytest.raises(UnknownResourceType, match=f'the server doesn\'t have a resource type "{word}"'):
        resource_of(word, CATALOGUE)


def test_category_expands_to_all_its_resources() -> None:
    """The order is the server's; a category is an error where a single resource is expected."""
    assert resources_of("all", CATALOGUE) == (POD, SERVICE, DEPLOYMENT)
    with pytest.raises(UnknownResourceType):
        resource_of("all", CATALOGUE)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["pods"], [RequestedResource(POD)]),
        (["pods", "a", "b", "a"], [RequestedResource(POD, ("a", "b"))]),
        (["po,svc"], [RequestedResource(POD), RequestedResource(SERVICE)]),
        (["po,pods,all"], [RequestedResource(POD), RequestedResource(SERVICE), RequestedResource(DEPLOYMENT)]),
        (["po,svc", "web"], [RequestedResource(POD, ("web",)), RequestedResource(SERVICE, ("web",))]),
        (["pod/a", "svc/b"], [RequestedResource(POD, ("a",)), RequestedResource(SERVICE, ("b",))]),
    ],
)
def test_arguments_name_objects(words: list[str], wanted: list[RequestedResource]) -> None:
    """As a type and names, or as type/name."""
    assert list(requested_resources(words, CATALOGUE)) == wanted


@pytest.mark.parametrize(
    "words", [[], ["pod/a", "b"], ["pods", "pod/a"], ["pod/"], ["/a"], ["pod/a/b"], ["po,svc/a"], ["pods", "a,b"]]
)
def test_ambiguous_arguments_are_rejected(words: list[str]) -> None:
    with pytest.raises(AmbiguousArguments):
        requested_resources(words, CATALOGUE)


def test_resource_of_a_kind_is_found_by_version() -> None:
    """Documents name both version and kind."""
    assert served_kind("example.com/v1", "Widget", CATALOGUE) == OLD_WIDGET
    assert served_kind("v1", "Widget", CATALOGUE) is None
