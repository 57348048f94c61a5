"""Token requests: what may be requested, and what is issued."""

from typing import Any

import pytest

from access_objects import ALICE, NODE, CountingIds, authorizer, pod, post, put, thing
from pykubelet.api.errors import ApiError
from pykubelet.apiserver.admission.noderestriction import NodeRestriction
from pykubelet.apiserver.authentication.jwt import unverified_claims
from pykubelet.apiserver.authentication.serviceaccount import ISSUER, ServiceAccountTokens
from pykubelet.apiserver.certs.certificates import new_key
from pykubelet.apiserver.handlers.token_request import TokenRequests
from pykubelet.apiserver.request import ApiRequest, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.testing.virtual_time import ManualClock

KEY = new_key()
LOST = "The object might have been deleted and then recreated"


@pytest.fixture
async def handler(store: DurableStore) -> TokenRequests:
    await put(store, "serviceaccounts", thing("ServiceAccount", "bot", "ns"))
    await put(store, "pods", pod("p", node="n1", serviceAccountName="bot", volumes=[access_volume()]))
    await put(store, "pods", pod("other", node="n1", serviceAccountName="else"))
    await put(store, "secrets", thing("Secret", "s", "ns"))
    await put(store, "nodes", thing("Node", "n1"))
    clock = ManualClock()
    tokens = ServiceAccountTokens(KEY, store.get, clock=clock, ids=CountingIds())
    rules = [NodeRestriction(store.newest, authorizer(store).decide)]
    return TokenRequests(tokens=tokens, store=store, clock=clock, admission=rules)


def access_volume() -> dict[str, Any]:
    return {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}


def asked(spec: dict[str, Any], *, user: UserInfo = ALICE, name: str = "bot", **fields: str) -> ApiRequest:
    metadata = {field.removeprefix("metadata_"): value for field, value in fields.items()}
    body = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": metadata, "spec": spec}
    return post(user, "serviceaccounts/token", body, namespace="ns", name=name)


def bound(kind: str, name: str, uid: str = "", version: str = "v1") -> dict[str, Any]:
    reference = {"kind": kind, "apiVersion": version, "name": name} | ({"uid": uid} if uid else {})
    return {"boundObjectRef": reference}


async def test_plain_request_gets_a_token_for_an_hour(handler: TokenRequests) -> None:
    """The answer shows the defaults and the expiration."""
    answer = await handler(asked({}))
    document = answer.document
    assert answer.code == 201
    assert document["metadata"] == {
        "name": "bot",
        "namespace": "ns",
        "uid": "bot-uid",
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    assert document["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None}
    assert document["status"]["expirationTimestamp"] == "2026-01-01T01:00:00Z"
    bearer = handler.tokens.bearer(document["status"]["token"])
    assert bearer is not None
    assert bearer.user.uid == "bot-uid"


@pytest.mark.parametrize(
    ("reference", "claims"),
    [
        (bound("Pod", "p"), {"pod": {"name": "p", "uid": "p-uid"}, "node": {"name": "n1", "uid": "n1-uid"}}),
        (bound("Secret", "s", "s-uid"), {"secret": {"name": "s", "uid": "s-uid"}}),
        (bound("Node", "n1"), {"node": {"name": "n1", "uid": "n1-uid"}}),
    ],
    ids=["pod", "secret", "node"],
)
async def test_bound_token_names_its_object(
    handler: TokenRequests, reference: dict[str, Any], claims: dict[str, Any]
) -> None:
    """A pod's token also names the node."""
    answer = await handler(asked(reference))
    found = unverified_claims(answer.document["status"]["token"])
    assert found is not None
    account = {"namespace": "ns", "serviceaccount": {"name": "bot", "uid": "bot-uid"}}
    assert found["kubernetes.io"] == account | claims
    assert answer.document["spec"]["boundObjectRef"] == reference["boundObjectRef"]


async def test_token_of_the_access_volume_lives_a_year_and_warns(handler: TokenRequests) -> None:
    """Its status shows the requested hour."""
    answer = await handler(asked({"expirationSeconds": 3607} | bound("Pod", "p")))
    found = unverified_claims(answer.document["status"]["token"])
    assert found is not None
    assert found["exp"] - found["iat"] == 365 * 24 * 3600
    assert found["kubernetes.io"]["warnafter"] - found["iat"] == 3607
    assert answer.document["status"]["expirationTimestamp"] == "2026-01-01T01:00:07Z"


@pytest.mark.parametrize(
    ("call", "code", "message"),
    [
        (
            asked({"expirationSeconds": 599}),
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: '
                "may not specify a duration less than 10 minutes"
            ),
        ),
        (
            asked({"expirationSeconds": 2**32 + 1}),
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: '
                "may not specify a duration larger than 2^32 seconds"
            ),
        ),
        (asked({}, name="gone"), 404, 'serviceaccounts "gone" not found'),
        (asked(bound("Pod", "gone")), 404, 'pods "gone" not found'),
        (
            asked({}, metadata_name="x"),
            422,
            (
                'TokenRequest.authentication.k8s.io "bot" is invalid: metadata.name: Invalid value: "x": '
                "must match the service account name if specified"
            ),
        ),
        (
            asked({}, uid="x"),
            409,
            (
                'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "bot": '
                "the UID in the token request (x) does not match the UID of the service account (bot-uid)"
            ),
        ),
        (
            asked(bound("Pod", "other")),
            400,
            'cannot bind token for serviceaccount "bot" to pod running with different serviceaccount name.',
        ),
        (
            asked(bound("Pod", "p", "x")),
            409,
            (
                'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (x) does not match '
                f"the UID in record. {LOST}"
            ),
        ),
        (asked(bound("Job", "j", version="batch/v1")), 400, "cannot bind token to object of type batch/v1, Kind=Job"),
        (asked(bound("Lamp", "l")), 400, "cannot bind token to object of type /v1, Kind=Lamp"),
        (asked({}, user=NODE), 403, 'serviceaccounts "bot" is forbidden: node requested token not bound to a pod'),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, str) else "",
)
async def test_bad_request_is_refused_in_upstreams_words(
    handler: TokenRequests, call: ApiRequest, code: int, message: str
) -> None:
    with pytest.raises(ApiError) as caught:
        await handler(call)
    assert (caught.value.code, caught.value.message) == (code, message)


async def test_node_gets_tokens_for_its_pods(handler: TokenRequests) -> None:
    """The token is bound to the pod's UID, and the audience must be one that the pod mounts."""
    answer = await handler(asked(bound("Pod", "p", "p-uid"), user=NODE))
    assert answer.code == 201
    with pytest.raises(ApiError, match='audience "vault" not found in pod spec volume'):
        await handler(asked({"audiences": ["vault"]} | bound("Pod", "p", "p-uid"), user=NODE))
