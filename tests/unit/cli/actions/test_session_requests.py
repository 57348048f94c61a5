"""The HTTP requests that commands send."""

from pykubelet.api.schema import DEPLOYMENTS, NODES, PODS
from pykubelet.api.serializer import decode_document
from pykubelet.cli.actions.session import (
    TABLE,
    ApplyOptions,
    DeletionOptions,
    LogRequestOptions,
    apply_plan,
    changes_plan,
    delete_plan,
    exec_plan,
    forward_plan,
    log_plan,
    object_plan,
    page_plan,
)
from pykubelet.client.interface import EVERYTHING, Selection


def test_table_is_requested_by_the_accept_header() -> None:
    """For a single object and for a page of a list; without as_table there is no such header."""
    one = object_plan(PODS, "shop", "web", as_table=True)
    assert (one.target, one.accept) == ("/api/v1/namespaces/shop/pods/web", TABLE)
    assert object_plan(PODS, "shop", "web", as_table=False).accept == ""
    page = page_plan(NODES, "", Selection("a=b", "c=d"), "more", as_table=True)
    assert page.target == "/api/v1/nodes?labelSelector=a%3Db&fieldSelector=c%3Dd&limit=500&continue=more"
    assert page.accept == TABLE
    changes = changes_plan(PODS, "", EVERYTHING, "7", as_table=False)
    assert changes.path == "/api/v1/pods"
    assert "resourceVersion=7" in changes.target
    assert "watch=true" in changes.target
    assert changes.accept == ""


def test_log_has_only_the_options_that_are_given() -> None:
    """A tail of 0 lines is an option, too."""
    assert log_plan("shop", "web", "main", LogRequestOptions()).target.endswith("/pods/web/log?container=main")
    options = LogRequestOptions(
        follow=True, previous=True, timestamps=True, since_seconds=5, since_time="t", tail=0, limit_bytes=9
    )
    target = log_plan("shop", "web", "main", options).target
    assert target.endswith(
        "?container=main&follow=true&previous=true&timestamps=true&sinceSeconds=5&sinceTime=t&tailLines=0&limitBytes=9"
    )


def test_exec_sends_each_command_argument_separately() -> None:
    """With a terminal there is no stderr stream."""
    plain = exec_plan("shop", "web", "main", ["sh", "-c", "a b"], stdin=True, tty=False).target
    assert plain.endswith("exec?container=main&stdin=true&stdout=true&stderr=true&command=sh&command=-c&command=a+b")
    screen = exec_plan("shop", "web", "main", ["sh"], stdin=False, tty=True).target
    assert screen.endswith("exec?container=main&stdout=true&tty=true&command=sh")
    assert forward_plan("shop", "web").target == "/api/v1/namespaces/shop/pods/web/portforward"


def test_apply_sends_force_and_dry_run() -> None:
    """Without force, fields of other managers are not taken over."""
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    plan = apply_plan(DEPLOYMENTS, body, "shop", ApplyOptions(field_manager="me"))
    assert plan.target.endswith("/deployments/web?fieldManager=me&force=false&fieldValidation=Strict")
    asked = apply_plan(DEPLOYMENTS, body, "shop", ApplyOptions(field_manager="me", force=True, dry_run=True))
    assert asked.target.endswith("?fieldManager=me&force=true&dryRun=All&fieldValidation=Strict")


def test_delete_sends_its_options_in_the_body() -> None:
    """Grace period, propagation policy and dry run."""
    plain = delete_plan(PODS, "shop", "web", DeletionOptions())
    assert decode_document(plain.body or b"") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
    }
    wish = DeletionOptions(grace_seconds=0, cascade="Orphan", dry_run=True)
    told = decode_document(delete_plan(PODS, "shop", "web", wish).body or b"")
    assert (told["gracePeriodSeconds"], told["propagationPolicy"], told["dryRun"]) == (0, "Orphan", ["All"])
