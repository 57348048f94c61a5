"""Secrets of service account tokens: what is written into them, and how long their tokens are valid."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from controller_rig import Bench
from pykubelet.aio.tasks import running, with_ready_event
from pykubelet.api.schema import SECRETS, SERVICE_ACCOUNTS
from pykubelet.apiserver.authentication.serviceaccount import ServiceAccountTokens, TokenError
from pykubelet.apiserver.certs.certificates import new_key
from pykubelet.apiserver.token_secrets import TokenSecrets
from pykubelet.testing.local_api import CountingIds, LocalApi, local_api

KEY = new_key()
NAME, UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"


class TokenBench(Bench):
    """A server that completes Secrets, and what verifies their tokens."""

    def __init__(self, api: LocalApi) -> None:
        super().__init__(api.client)
        self.tokens = ServiceAccountTokens(KEY, api.store.get, clock=self.clock, ids=CountingIds())
        self.secrets = TokenSecrets(
            store=api.store, registry=api.registry, handle=api.server.handle, tokens=self.tokens, root_ca=b"PEM"
        )

    async def secret(self, name: str = "s", **rest: Any) -> dict[str, Any] | None:
        """Creates a Secret for the account `bot`; returns it when it had time to be completed."""
        metadata = {"annotations": {NAME: "bot", **rest.pop("annotations", {})}}
        await self.make(SECRETS, name, metadata=metadata, type="kubernetes.io/service-account-token", **rest)
        await asyncio.sleep(1)
        return await self.get(SECRETS, name)

    async def token(self) -> str:
        found = await self.secret()
        assert found is not None
        return b64decode(found["data"]["token"]).decode()

    def refusal(self, token: str) -> str:
        with pytest.raises(TokenError) as refused:
            self.tokens.bearer(token)
        return str(refused.value)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[TokenBench]:
    async with local_api(tmp_path) as api:
        made = TokenBench(api)
        await made.make(SERVICE_ACCOUNTS, "bot")
        async with running({"token secrets": with_ready_event(made.secrets.run)}):
            yield made


async def test_secret_gets_a_token_of_its_account(bench: TokenBench) -> None:
    found, account = await bench.secret(), await bench.get(SERVICE_ACCOUNTS, "bot")
    assert found is not None
    assert account is not None
    data = {name: b64decode(value) for name, value in found["data"].items()}
    assert (data["ca.crt"], data["namespace"]) == (b"PEM", b"default")
    assert found["metadata"]["annotations"] == {NAME: "bot", UID: account["metadata"]["uid"]}
    bearer = bench.tokens.bearer(data["token"].decode())
    assert bearer is not None
    assert bearer.user.name == "system:serviceaccount:default:bot"
    assert "system:serviceaccounts:default" in bearer.user.groups
    # Nothing is left to write.
    assert (await bench.get(SECRETS, "s") or {})["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]


async def test_removed_token_is_written_again_and_the_old_one_is_invalid(bench: TokenBench) -> None:
    """The signature alone makes no token valid: the Secret must have it."""
    token = await bench.token()
    await bench.change(SECRETS, "s", {"data": {"token": "eA=="}})
    assert bench.refusal(token) == "Token does not match server's copy"
    await bench.change(SECRETS, "s", {"data": {"token": None}})
    await asyncio.sleep(1)
    data = (await bench.get(SECRETS, "s") or {})["data"]
    assert bench.tokens.bearer(b64decode(data["token"]).decode()) is not None


async def test_token_ends_with_its_secret_or_account(bench: TokenBench) -> None:
    token = await bench.token()
    assert bench.tokens.bearer(token) is not None
    await bench.delete(SECRETS, "s")
    assert bench.refusal(token) == "Token has been invalidated"
    token = await bench.token()
    await bench.delete(SERVICE_ACCOUNTS, "bot")
    assert bench.refusal(token) in {'serviceaccounts "bot" not found', "Token has been invalidated"}
    await asyncio.sleep(1)
    assert await bench.get(SECRETS, "s") is None


async def test_token_that_is_marked_invalid_is_refused(bench: TokenBench) -> None:
    token = await bench.token()
    label = {"kubernetes.io/legacy-token-invalid-since": "2026-01-01"}
    await bench.change(SECRETS, "s", {"metadata": {"labels": label}})
    assert "has been marked invalid" in bench.refusal(token)


async def test_secret_of_another_account_is_deleted(bench: TokenBench) -> None:
    """The account it names does not exist, or has another UID."""
    assert await bench.secret("missing", annotations={NAME: "nobody"}) is None
    assert await bench.secret("other", annotations={UID: "another"}) is None


async def test_other_secrets_stay_as_they_are(bench: TokenBench) -> None:
    await bench.make(SECRETS, "plain", metadata={"annotations": {NAME: "bot"}}, data={"a": "eA=="})
    await asyncio.sleep(1)
    assert (await bench.get(SECRETS, "plain") or {})["data"] == {"a": "eA=="}
