"""Our server gives the recorded answers of kube-apiserver 1.34 in every step of every transcript.

The server runs as users run it: the command, on a loopback port, with a token file.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pykubelet_process import ADMIN_TOKEN, ServerProcess
from transcripts import Play, Plays, differences

_TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.json"))
_NODE = 'nodetoken,system:node:n1,n1-uid,"system:nodes"\n'
# The recorded server reported this address at /api.
_ADDRESS = "192.0.2.2:16443"


def _steps() -> Iterator[object]:
    for path in _TRANSCRIPTS:
        for index, step in enumerate(json.loads(path.read_bytes())["steps"]):
            yield pytest.param(path, index, id=f"{path.stem}-{index + 1:02}-{step['id']}")


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plays]:
    """The plays of all transcripts, with one server."""
    folder = tmp_path_factory.mktemp("transcripts")
    server = ServerProcess(folder, "--external-hostname", _ADDRESS, tokens=_NODE).start()

    @cache
    def play(path: Path) -> Play:
        return Play(path, server.url, server.tls(), ADMIN_TOKEN)

    yield play
    assert server.stop() == 0


@pytest.mark.parametrize(("path", "index"), [*_steps()])
def test_server_answers_as_kube_apiserver_did(plays: Plays, path: Path, index: int) -> None:
    """The same request gets the same answer, apart from values that differ from run to run."""
    play = plays(path)
    assert differences(play.steps[index], play.answer(index)) == []
