"""Authentication and authorization of requests to the node, decided by a real API server."""

import aiohttp
import pytest

from node_api_rig import anonymous
from node_cluster import Cluster
from pykubelet_process import ADMIN_TOKEN

EXEC = "/exec/default/web/main?output=1&command=id"


async def codes(cluster: Cluster, token: str, *paths: str) -> list[int]:
    """The status codes of GET requests to the node with this token."""
    found = []
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        for path in paths:
            async with http.get(cluster.node_url + path, ssl=anonymous()) as response:
                found.append(response.status)
    return found


async def account(cluster: Cluster, name: str, *rights: str) -> str:
    """A token of a service account with these rights on subresources of nodes."""
    made = await cluster.kubectl("create", "serviceaccount", name)
    assert made.code == 0, made.err
    for right in rights:
        verb, _, subresource = right.partition(" ")
        role = f"{name}-{verb}-{subresource}"
        await cluster.kubectl("create", "clusterrole", role, f"--verb={verb}", f"--resource=nodes/{subresource}")
        bound = await cluster.kubectl(
            "create", "clusterrolebinding", role, f"--clusterrole={role}", f"--serviceaccount=default:{name}"
        )
        assert bound.code == 0, bound.err
    return (await cluster.kubectl("create", "token", name)).out.decode().strip()


async def test_token_is_known_by_the_api_server(cluster: Cluster) -> None:
    """An admin's token gets 200 everywhere, an unknown token 401."""
    assert await codes(cluster, ADMIN_TOKEN, "/pods", "/metrics", "/healthz") == [200, 200, 200]
    assert await codes(cluster, "made-up", "/pods", "/healthz") == [401, 401]


@pytest.mark.parametrize(
    ("name", "rights", "expected"),
    [
        ("nobody", (), [403, 403, 403, 403]),
        ("scraper", ("get metrics", "get stats"), [403, 200, 200, 403]),
        ("lister", ("get pods",), [200, 403, 403, 403]),
        # The right to read everything of a node does not include running commands in its pods.
        ("reader", ("get proxy",), [200, 403, 403, 403]),
        # 400: authorized, but the request has no upgrade.
        ("operator", ("create proxy",), [403, 403, 403, 400]),
    ],
)
async def test_rights_are_those_of_the_api_server(
    cluster: Cluster, name: str, rights: tuple[str, ...], expected: list[int]
) -> None:
    """The subresource of the node decides."""
    cluster.rig.add_pod()
    token = await account(cluster, name, *rights)
    assert await codes(cluster, token, "/pods", "/metrics", "/stats/summary", EXEC) == expected


async def test_unreachable_api_server_allows_only_cached_decisions(cluster: Cluster) -> None:
    """A new token gets 401, and a known user's first request for another subresource 500."""
    assert await codes(cluster, ADMIN_TOKEN, "/pods") == [200]
    cluster.server.kill()
    try:
        assert await codes(cluster, ADMIN_TOKEN, "/pods") == [200]
        assert await codes(cluster, "other", "/pods") == [401]
        assert await codes(cluster, ADMIN_TOKEN, "/metrics") == [500]
    finally:
        cluster.server.start()
