"""The page that explains a pod: authorization and contents."""

from pathlib import Path

import pytest

from node_api_rig import FixedJudge, NodeRig, asked
from pykubelet.api.serializer import decode_document
from pykubelet.httpserver.response import HttpError, HttpResponse
from pykubelet.kubelet.server.auth import attributes_of
from pykubelet.kubelet.server.routes import KubeletEndpoint, route
from pykubelet.testing.build import pod

PATH = "/pykubelet/why/default/web"


async def test_page_explains_a_pod_the_node_knows(tmp_path: Path) -> None:
    """It contains what the pod waits for; an unknown pod gives 404."""
    world = NodeRig(tmp_path)
    world.pods.update_pod(pod())
    front = world.front(FixedJudge(("get", "pods")))
    found = await front.answer(asked("GET", PATH))
    assert isinstance(found, HttpResponse)
    told = decode_document(found.body)
    assert (found.code, told["name"], told["waitsFor"]["step"]) == (200, "web", "start")
    missing = await front.answer(asked("GET", "/pykubelet/why/default/other"))
    assert isinstance(missing, HttpResponse)
    assert (missing.code, missing.body) == (404, b"this node knows no pod default/other\n")


def test_page_needs_the_right_to_read_pods_of_the_node() -> None:
    """Either nodes/pods or the general nodes/proxy."""
    assert attributes_of("GET", PATH) == ("get", ("pods", "proxy"))


@pytest.mark.parametrize(
    "path", ["/pykubelet", "/pykubelet/why", "/pykubelet/why/default", f"{PATH}/main", "/pykubelet/why//web"]
)
def test_page_needs_namespace_and_pod(path: str) -> None:
    """Any other path gives 404."""
    with pytest.raises(HttpError, match="404"):
        route("GET", path)
    assert route("GET", PATH) == (KubeletEndpoint.WHY, "default", "web", "", "", "")
