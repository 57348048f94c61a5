"""The recording `auth` of a real API server, as far as access is decided before any object is read."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from access_objects import CountingIds, authorizer, request
from pykubelet.api.errors import ApiError
from pykubelet.apiserver.admission.noderestriction import NodeRestriction
from pykubelet.apiserver.authentication.authenticator import Authenticator
from pykubelet.apiserver.authentication.serviceaccount import ServiceAccountTokens
from pykubelet.apiserver.authentication.tokenfile import read_token_file
from pykubelet.apiserver.authorization.authorizer import forbidden_error
from pykubelet.apiserver.authorization.bootstrappolicy import ensure_default_roles
from pykubelet.apiserver.certs.certificates import new_key
from pykubelet.apiserver.request import AuthorizationAttributes, UserInfo
from pykubelet.apiserver.storage.durable_store import DurableStore
from pykubelet.testing.virtual_time import VirtualClock

RECORDING = Path(__file__).parents[3] / "upstream/transcripts/auth.json"
STEPS = {step["id"]: step for step in json.loads(RECORDING.read_text().replace("<ns>", "team"))["steps"]}
TOKENS = read_token_file("nodetoken,system:node:n1,1,system:nodes\n", "f")
VERBS = {"GET": "get", "POST": "create", "PATCH": "patch"}


def review_of(user: UserInfo, step: dict[str, Any]) -> AuthorizationAttributes:
    """The attributes of the step's request, read from its path."""
    url = urlsplit(step["path"].replace("${ns}", "team"))
    parts = url.path.strip("/").split("/")
    if parts[0] != "api":
        return AuthorizationAttributes(user=user, verb="get", path=url.path)
    parts = parts[2:]
    namespace = ""
    if parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    resource, name, subresource = (*parts, "", "")[:3]
    verb = VERBS[step["method"]]
    fields = parse_qs(url.query).get("fieldSelector", [""])[0]
    return AuthorizationAttributes(
        user=user,
        verb="list" if verb == "get" and not name else verb,
        resource=resource,
        name=name,
        subresource=subresource,
        namespace=namespace,
        fields=fields,
    )


def decide(store: DurableStore, authenticator: Authenticator, step: dict[str, Any]) -> None:
    """Raises the error of a step that is refused before its object is read."""
    decides = authorizer(store)
    user = authenticator.authenticate({"Authorization": f"Bearer {step['as']}"} if step["as"] else {}, None)
    review = review_of(user, step)
    decision = decides.decide(review)
    if not decision.allowed:
        raise forbidden_error(review, decision)
    if step["method"] == "POST":
        asked = request(user, "create", "pods", "x", namespace="team")
        NodeRestriction(store.newest, decides.decide).admit(asked, step["body"], None)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_recorded_step_is_decided_alike(store: DurableStore, step: dict[str, Any]) -> None:
    """Refusals have the same Status; steps that upstream answered from its store are allowed."""
    clock = VirtualClock()
    await ensure_default_roles(store, clock=clock, ids=CountingIds())
    tokens = ServiceAccountTokens(new_key(), store.get, clock=clock, ids=CountingIds())
    authenticator = Authenticator(tokens, clock=clock, static=TOKENS)
    if step["expect"]["status"] in {401, 403}:
        with pytest.raises(ApiError) as caught:
            decide(store, authenticator, step)
        assert caught.value.to_status() == step["expect"]["body"]
    else:
        assert step["expect"]["status"] in {200, 404}
        decide(store, authenticator, step)
