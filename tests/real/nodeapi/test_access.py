"""Who may ask the node for what, as a real API server says."""

import aiohttp
import pytest

from node_api_rig import anonymous
from node_cluster import Cluster
from pykubelet_process import ADMIN_TOKEN

EXEC = "/exec/default/web/main?output=1&command=id"


async def codes(cluster: Cluster, token: str, *paths: str) -> list[int]:
    """The codes with which the node answers somebody."""
    found = []
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
        for path in paths:
            async with http.get(cluster.node_url + path, ssl=anonymous()) as response:
                found.append(response.status)
    return found


async def account(cluster: Cluster, name: str, *rights: str) -> str:
    """The token of a service account that may `get` subresources of nodes."""
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
    """An administrator's opens everything, one that nobody gave opens nothing."""
    assert await codes(cluster, ADMIN_TOKEN, "/pods", "/metrics", "/healthz") == [200, 200, 200]
    assert await codes(cluster, "made-up", "/pods", "/healthz") == [401, 401]


@pytest.mark.parametrize(
    ("name", "rights", "expected"),
    [
        ("nobody", (), [403, 403, 403, 403]),
        ("scraper", ("get metrics", "get stats"), [403, 200, 200, 403]),
        ("lister", ("get pods",), [200, 403, 403, 403]),
        # The right to read all of a node is not the right to run commands in its pods.
        ("reader", ("get proxy",), [200, 403, 403, 403]),
        # 400: allowed, but no upgrade was asked for.
        ("operator", ("create proxy",), [403, 403, 403, 400]),
    ],
)
async def test_rights_are_those_of_the_api_server(
    cluster: Cluster, name: str, rights: tuple[str, ...], expected: list[int]
) -> None:
    """Subresources of the node decide."""
    cluster.rig.add_pod()
    token = await account(cluster, name, *rights)
    assert await codes(cluster, token, "/pods", "/metrics", "/stats/summary", EXEC) == expected


async def test_api_server_that_is_away_lets_nobody_new_in(cluster: Cluster) -> None:
    """Who is not known yet is refused; what is known and remembered still holds."""
    assert await codes(cluster, ADMIN_TOKEN, "/pods") == [200]
    cluster.server.kill()
    try:
        assert await codes(cluster, ADMIN_TOKEN, "/pods") == [200]
        assert await codes(cluster, "other", "/pods") == [401]
        assert await codes(cluster, ADMIN_TOKEN, "/metrics") == [500]
    finally:
        cluster.server.start()
