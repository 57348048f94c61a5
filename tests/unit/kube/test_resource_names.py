"""Words of a command line as resources and names."""

import pytest

from pykubelet.api.resources import DEPLOYMENTS, EVENTS, NODES, PODS, SERVICES, Resource
from pykubelet.kube.discovery import Served
from pykubelet.kube.resource_names import (
    UnclearNames,
    UnknownResource,
    Wanted,
    resource_of,
    resources_of,
    served_kind,
    wanted_of,
)

ALL = ("all",)
POD = Served(PODS, "pod", ("po",), ALL)
SERVICE = Served(SERVICES, "service", ("svc",), ALL)
NODE = Served(NODES, "node", ("no",))
EVENT = Served(EVENTS, "event", ("ev",))
DEPLOYMENT = Served(DEPLOYMENTS, "deployment", ("deploy",), ALL)
NEW_EVENT = Served(Resource("events.k8s.io", "v1", "events", "Event"), "event", ("ev",))
WIDGET = Served(Resource("example.com", "v2", "widgets", "Widget"), "widget", ("wg",))
OLD_WIDGET = Served(Resource("example.com", "v1", "widgets", "Widget"), "widget", ("wg",))
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
def test_resource_is_found_by_any_of_its_names(word: str, served: Served) -> None:
    """Plural, singular, short name, with group, with version and group; the first served wins."""
    assert resource_of(word, CATALOGUE) == served


@pytest.mark.parametrize("word", ["nothing", "pods.apps", "widgets.v3.example.com"])
def test_unknown_word_is_told_in_kubectls_words(word: str) -> None:
    """With the word that was given."""
    with pytest.raises(UnknownResource, match=f'the server doesn\'t have a resource type "{word}"'):
        resource_of(word, CATALOGUE)


def test_category_is_all_of_its_members() -> None:
    """In the server's order; where one resource is meant, a category is none."""
    assert resources_of("all", CATALOGUE) == (POD, SERVICE, DEPLOYMENT)
    with pytest.raises(UnknownResource):
        resource_of("all", CATALOGUE)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["pods"], [Wanted(POD)]),
        (["pods", "a", "b", "a"], [Wanted(POD, ("a", "b"))]),
        (["po,svc"], [Wanted(POD), Wanted(SERVICE)]),
        (["po,pods,all"], [Wanted(POD), Wanted(SERVICE), Wanted(DEPLOYMENT)]),
        (["po,svc", "web"], [Wanted(POD, ("web",)), Wanted(SERVICE, ("web",))]),
        (["pod/a", "svc/b"], [Wanted(POD, ("a",)), Wanted(SERVICE, ("b",))]),
    ],
)
def test_words_name_objects(words: list[str], wanted: list[Wanted]) -> None:
    """A type and names, or both in one word."""
    assert list(wanted_of(words, CATALOGUE)) == wanted


@pytest.mark.parametrize(
    "words", [[], ["pod/a", "b"], ["pods", "pod/a"], ["pod/"], ["/a"], ["pod/a/b"], ["po,svc/a"], ["pods", "a,b"]]
)
def test_words_that_make_no_sense_are_refused(words: list[str]) -> None:
    """Before anything is asked of the server."""
    with pytest.raises(UnclearNames):
        wanted_of(words, CATALOGUE)


def test_resource_of_a_kind_is_found_by_version() -> None:
    """For documents, which name both."""
    assert served_kind("example.com/v1", "Widget", CATALOGUE) == OLD_WIDGET
    assert served_kind("v1", "Widget", CATALOGUE) is None
