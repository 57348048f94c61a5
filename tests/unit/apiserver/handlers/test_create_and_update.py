"""Creating and updating objects: names, preconditions, dry runs, field validation, system fields."""

from dataclasses import replace
from typing import Any

import pytest

from pykubelet.apiserver.request import AuthorizationAttributes, AuthorizationDecision
from pykubelet.apiserver.server import Server
from pykubelet.testing.local_api import CountingIds
from pykubelet.testing.virtual_time import VirtualClock
from verb_requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, Asker, config_map, pod

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


async def test_created_object_gets_system_fields_and_loses_those_it_claims(asker: Asker) -> None:
    """The server sets UID, creation time and revision; an object cannot be created as deleted."""
    claimed = {"uid": "mine", "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-01T00:00:00Z"}
    made = await asker.ask("POST", MAPS, config_map("a", **claimed, selfLink="/x", namespace="default"))
    metadata = made["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"].startswith("2026-")
    assert not {"deletionTimestamp", "selfLink"} & set(metadata)
    assert (await asker.answer("GET", f"{MAPS}/a")).document == made


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (config_map("a", namespace="other"), (400, "the namespace of the provided object does not match")),
        (config_map("a", resourceVersion="5"), (500, "resourceVersion should not be set on objects to be created")),
        (config_map(""), (422, 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName')),
        (config_map("x/y"), (422, 'ConfigMap "x/y" is invalid')),
        ([], (400, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind")),
        (b"\xff\xfe", (400, "the object provided is unrecognized")),
        ({"data": {"k": {}}}, (400, 'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot')),
    ],
    ids=["namespace", "revision", "no name", "path", "list", "binary", "type"],
)
async def test_bad_object_is_refused_and_nothing_stored(asker: Asker, body: Any, refusal: tuple[int, str]) -> None:
    """The message is upstream's."""
    code, message = await asker.refused("POST", MAPS, body)
    assert (code, message[: len(refusal[1])]) == refusal
    assert (await asker.ask("GET", MAPS))["items"] == []


async def test_create_distinguishes_taken_names_from_terminating_objects(asker: Asker) -> None:
    """A deleted object with a finalizer keeps its name."""
    await asker.ask("POST", MAPS, config_map("a", finalizers=["example.com/hold"]))
    assert await asker.refused("POST", MAPS, config_map("a")) == (409, 'configmaps "a" already exists')
    await asker.ask("DELETE", f"{MAPS}/a")
    message = 'object is being deleted: configmaps "a" already exists'
    assert await asker.refused("POST", MAPS, config_map("a")) == (409, message)


async def test_generated_names_are_tried_until_one_is_free(asker: Asker) -> None:
    """A collision costs another try, not the request; the server gives up after eight in a row."""
    suffixes = iter(["bbbbb", "bbbbb", "ccccc", *["ccccc"] * 8])
    asker.api.server._scope.ids.suffix = lambda: next(suffixes)  # type: ignore[method-assign]
    body = {"metadata": {"generateName": f"{'x' * 60}-"}}
    names = [(await asker.ask("POST", MAPS, body))["metadata"]["name"] for _ in range(2)]
    assert names == [f"{'x' * 58}bbbbb", f"{'x' * 58}ccccc"]
    code, message = await asker.refused("POST", MAPS, body)
    assert code == 409
    assert message.endswith("the server was not able to generate a unique name for the object")


@pytest.mark.parametrize(
    ("metadata", "refusal"),
    [
        ({"name": "b"}, (400, "the name of the object (b) does not match the name on the URL (a)")),
        ({}, (400, "the name of the object (a based on URL) was undeterminable: name must be provided")),
        ({"name": "a", "namespace": "x"}, (400, "the namespace of the provided object does not match the namespace")),
        ({"name": "a", "resourceVersion": "1"}, (409, 'Operation cannot be fulfilled on configmaps "a": the object')),
        ({"name": "a", "resourceVersion": "x"}, (400, 'strconv.ParseUint: parsing "x": invalid syntax')),
        ({"name": "a", "uid": "u"}, (409, 'Operation cannot be fulfilled on configmaps "a": StorageError: invalid')),
    ],
    ids=["name", "no name", "namespace", "old revision", "no revision", "uid"],
)
async def test_replacement_must_be_of_the_same_object(asker: Asker, metadata: Any, refusal: tuple[int, str]) -> None:
    """Name and namespace must match the path; UID and resourceVersion are preconditions."""
    await asker.ask("POST", MAPS, config_map("a"))
    code, message = await asker.refused("PUT", f"{MAPS}/a", {"metadata": metadata})
    assert (code, message[: len(refusal[1])]) == refusal


async def test_update_without_revision_is_refused_where_the_kind_says_so_and_may_create(asker: Asker) -> None:
    """A lease can be created by PUT, and must name its revision afterwards."""
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": 5}}
    assert (await asker.answer("PUT", f"{LEASES}/a", lease)).code == 201
    code, message = await asker.refused("PUT", f"{LEASES}/a", lease)
    text = 'leases.coordination.k8s.io "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified'
    assert (code, message) == (422, f"{text} for an update")
    assert await asker.refused("PUT", f"{MAPS}/a", config_map("a")) == (404, 'configmaps "a" not found')


async def test_dry_run_does_everything_but_store(asker: Asker) -> None:
    """Answers look real, but nothing is stored and no revision is used."""
    stored = await asker.ask("POST", PODS, pod("b"))
    revision = asker.api.store.revision
    made = await asker.ask("POST", f"{PODS}?dryRun=All", pod("a"))
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]
    patched = await asker.ask("PATCH", f"{PODS}/b?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert patched["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert patched["metadata"]["labels"] == {"a": "b"}
    gone = await asker.ask("DELETE", f"{PODS}/b?dryRun=All")
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    assert asker.api.store.revision == revision
    assert (await asker.refused("POST", f"{PODS}?dryRun=Some", pod("a")))[0] == 422
    assert await asker.refused("POST", f"{PODS}?dryRun=All", pod("b")) == (409, 'pods "b" already exists')


async def test_strictness_of_field_validation(asker: Asker) -> None:
    """Warn is the default; Strict refuses; Ignore is silent; unknown fields are never stored."""
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"foo":1}'
    problems = ('duplicate field "data.k"', 'unknown field "foo"')
    answer = await asker.answer("POST", MAPS, body)
    assert answer.warnings == problems
    assert "foo" not in answer.document
    code, message = await asker.refused("POST", f"{MAPS}?fieldValidation=Strict", body)
    expected = f"strict decoding error: {', '.join(problems)}"
    assert (code, message) == (400, f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {expected}')
    ignored = await asker.answer("PUT", f"{MAPS}/a?fieldValidation=Ignore", body)
    assert ignored.warnings == ()
    patch = {"foo": 1}
    assert (await asker.answer("PATCH", f"{MAPS}/a", patch, MERGE)).warnings == ('unknown field "foo"',)
    code, message = await asker.refused("PATCH", f"{MAPS}/a?fieldValidation=Strict", patch, STRATEGIC)
    assert (code, message) == (
        422,
        ' "" is invalid: patch: Invalid value: "map[foo:1]": strict decoding error: unknown field "foo"',
    )


async def test_repeated_owner_references_are_dropped_with_a_warning(asker: Asker) -> None:
    """Upstream does so in every version since 1.20."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    answer = await asker.answer("POST", MAPS, config_map("a", ownerReferences=[owner, owner]))
    assert answer.document["metadata"]["ownerReferences"] == [owner]
    assert answer.warnings[0].endswith("duplicate UID(s) observed: u")


async def test_write_that_changes_nothing_takes_no_revision(asker: Asker) -> None:
    """This holds for updates and for patches."""
    made = await asker.ask("POST", MAPS, config_map("a"))
    again = await asker.ask("PUT", f"{MAPS}/a", config_map("a"))
    patched = await asker.ask("PATCH", f"{MAPS}/a", [{"op": "test", "path": "/data/k", "value": "v"}], JSON_PATCH)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert patched == again


async def test_change_that_creates_needs_the_right_to_create(asker: Asker) -> None:
    """Apply and PUT of a missing object need the right to create; a change of an existing one does not."""
    asked: list[AuthorizationAttributes] = []

    def refuse(review: AuthorizationAttributes) -> AuthorizationDecision:
        asked.append(review)
        return AuthorizationDecision(allowed=False, reason="so there")

    api = asker.api
    server = Server(store=api.store, registry=api.registry, clock=VirtualClock(), ids=CountingIds(), authorize=refuse)
    strict = Asker(replace(api, server=server))
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "h", "leaseDurationSeconds": 5}}
    for method, path, kind in (("PUT", f"{LEASES}/a", ""), ("PATCH", f"{LEASES}/a?fieldManager=me", APPLY)):
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        code, message = await strict.refused(method, path, body, kind)
        assert code == 403
        assert message.endswith(
            'cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default": so there'
        )
    assert [review.verb for review in asked] == ["create", "create"]
    made = await asker.ask("PUT", f"{LEASES}/a", lease)
    assert await strict.ask("PUT", f"{LEASES}/a", made) == made


async def test_deprecated_kind_gives_a_warning(asker: Asker) -> None:
    answer = await asker.answer("GET", "/api/v1/namespaces/default/endpoints")
    assert answer.warnings == ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)
