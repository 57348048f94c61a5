"""Traces which of our modules run during one change in real programs: `trace_path.py static-pod|patch|deployment`.

A program runs with a profile function that records every module in which a Python frame is entered between two
commands. `static-pod`: the node with the simulated runtime, from the rename of a manifest until its mirror pod is
Ready. `patch`: the API server, from the first byte of a strategic merge patch to its response. `deployment`: the
controllers, from a new template until the Deployment is complete. Each follows an identical change, so that one-time
work does not count.
"""

import base64
import http.client
import json
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import yaml

ROOT = Path(__file__).parent.parent
SOURCE = str(ROOT / "src/pykubelet") + os.sep
_SECONDS = 30.0
_ARGUMENT = "--traced"


class Tracer:
    """Records which of our functions are entered between one line on standard input and the next."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._is_on = False
        self._seen: dict[tuple[str, str], None] = {}

    def install(self) -> None:
        """Profile this thread and all later ones, except the one that reads standard input."""
        threading.Thread(target=self._obey, daemon=True).start()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def _obey(self) -> None:
        sys.stdin.readline()
        self._is_on = True
        self._output.with_suffix(".on").touch()
        sys.stdin.readline()
        self._is_on = False
        found = [(name.removeprefix(SOURCE), function) for name, function in list(self._seen)]
        part = self._output.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.rename(self._output)

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        del argument
        if self._is_on and event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            self._seen.setdefault((frame.f_code.co_filename, frame.f_code.co_qualname))


class Program:
    """A `pykubelet` command as a process, traced if wanted."""

    def __init__(self, *arguments: str, folder: Path, traced: bool = False) -> None:
        self._output = folder / f"{arguments[0]}.json"
        command = (
            [sys.executable, __file__, _ARGUMENT, str(self._output)] if traced else [sys.executable, "-m", "pykubelet"]
        )
        self._errors = folder / f"{arguments[0]}.log"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, *arguments], stdin=subprocess.PIPE, stderr=errors, stdout=errors
            )

    def until_ready(self) -> str:
        """Wait for the `ready` line and return the text after `ready`."""

        def ready() -> str | None:
            assert self._process.poll() is None, self._errors.read_text()
            lines = self._errors.read_text().splitlines()
            return next(
                (line.removeprefix("ready").strip() or "ready" for line in lines if line.startswith("ready")), None
            )

        return str(until(ready))

    def trace(self, change: Callable[[], None]) -> list[tuple[str, str]]:
        """The functions entered during the change."""
        self._order()
        until(self._output.with_suffix(".on").exists)
        change()
        self._order()
        until(self._output.exists)
        return [(file, function) for file, function in json.loads(self._output.read_text())]

    def _order(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=_SECONDS)


class Api:
    """A client of the API server in a kubeconfig, with one connection."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile() as pem:
            keys = (user["client-certificate-data"], user["client-key-data"])
            pem.write(b"\n".join(base64.b64decode(key) for key in keys))
            pem.flush()
            context.load_cert_chain(pem.name)
        place = urlsplit(cluster["server"])
        self._connection = http.client.HTTPSConnection(place.hostname or "", place.port, context=context)

    def close(self) -> None:
        self._connection.close()

    def ask(self, method: str, path: str, body: object = None, content: str = "application/json") -> dict[str, Any]:
        self._connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": content})
        with self._connection.getresponse() as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def is_ready(self, pod: str) -> bool:
        found = self.ask("GET", f"/api/v1/namespaces/default/pods/{pod}")
        conditions = found["status"].get("conditions", ()) if found["kind"] == "Pod" else ()
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def until(check: Callable[[], Any]) -> Any:
    """Repeat the check until it returns something true, and return that."""
    end = time.monotonic() + _SECONDS
    while not (found := check()):
        assert time.monotonic() < end, f"{check} did not become true"
        time.sleep(0.005)
    return found


@contextmanager
def programs() -> Iterator[tuple[Path, Callable[..., Program]]]:
    """Yields a folder and a function that starts programs, which end with the context."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:

        def start(*arguments: str, traced: bool = False) -> Program:
            program = Program(*arguments, folder=Path(folder), traced=traced)
            stack.callback(program.stop)
            return program

        yield Path(folder), start


def _pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "example/image:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def static_pod() -> list[tuple[str, str]]:
    """The functions that a node enters from the rename of a manifest until the mirror pod is Ready."""
    with ExitStack() as stack, programs() as (folder, start):
        data, manifests = folder / "data", folder / "manifests"
        manifests.mkdir()
        start("apiserver", "--data-dir", str(data), "--port", "0").until_ready()
        api = stack.enter_context(closing(Api(data / "admin.kubeconfig")))
        places = ("--kubeconfig", str(data / "admin.kubeconfig"), "--manifests", str(manifests), "--port", "0")
        options = ("--runtime", "sim", "--node-name", "n1", "--root-dir", str(folder / "root"))
        node = start("node", *places, *options, traced=True)
        node.until_ready()

        def put(name: str) -> None:
            part = manifests / f".{name}"
            part.write_text(json.dumps(_pod(name)))
            part.rename(manifests / f"{name}.json")
            until(lambda: api.is_ready(f"{name}-n1"))

        put("first")
        time.sleep(1.0)
        return node.trace(lambda: put("second"))


def patch() -> list[tuple[str, str]]:
    """The functions that the API server enters for a strategic merge patch of a pod."""
    with ExitStack() as stack, programs() as (folder, start):
        server = start("apiserver", "--data-dir", str(folder / "data"), "--port", "0", traced=True)
        server.until_ready()
        api = stack.enter_context(closing(Api(folder / "data/admin.kubeconfig")))
        pods = "/api/v1/namespaces/default/pods"
        for name in ("first", "second"):
            assert api.ask("POST", pods, _pod(name))["kind"] == "Pod"

        def change(name: str) -> None:
            body = {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "main", "image": "example/image:2"}]},
            }
            answer = api.ask("PATCH", f"{pods}/{name}", body, "application/strategic-merge-patch+json")
            assert answer["metadata"]["labels"] == {"a": "b"}, answer

        change("first")
        time.sleep(0.5)
        return server.trace(lambda: change("second"))


def deployment() -> list[tuple[str, str]]:
    """The functions that the controllers enter from a new template until all pods are new and ready."""
    with ExitStack() as stack, programs() as (folder, start):
        data = folder / "data"
        start("apiserver", "--data-dir", str(data), "--port", "0").until_ready()
        api, config = (
            stack.enter_context(closing(Api(data / "admin.kubeconfig"))),
            ("--kubeconfig", str(data / "admin.kubeconfig")),
        )
        options = ("--runtime", "sim", "--node-name", "n1", "--root-dir", str(folder / "root"), "--port", "0")
        start("node", *config, *options).until_ready()
        controllers = start("controllers", *config, traced=True)
        controllers.until_ready()
        sets = "/apis/apps/v1/namespaces/default/deployments"
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": _pod("web")["spec"]},
        }

        def complete() -> bool:
            found = api.ask("GET", f"{sets}/web")
            status, counts = found["status"], ("replicas", "updatedReplicas", "availableReplicas")
            is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
            return is_seen and all(status.get(count) == spec["replicas"] for count in counts)

        def change(image: str) -> None:
            containers = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
            api.ask("PATCH", f"{sets}/web", containers, "application/strategic-merge-patch+json")
            until(complete)

        api.ask("POST", sets, {"metadata": {"name": "web"}, "spec": spec})
        until(complete)

        def change_and_clean_up(image: str) -> None:
            change(image)
            # The sync after the last update of the status cleans up; with so few revisions nothing shows it.
            time.sleep(0.5)

        change_and_clean_up("example/image:2")
        return controllers.trace(lambda: change_and_clean_up("example/image:3"))


PATHS = {"static-pod": static_pod, "patch": patch, "deployment": deployment}


def modules(functions: list[tuple[str, str]]) -> list[str]:
    """The modules of these functions, in the order of the first call."""
    return list(dict.fromkeys(file for file, _ in functions))


def main(arguments: list[str]) -> None:
    if arguments[0] == _ARGUMENT:
        Tracer(Path(arguments[1])).install()
        from pykubelet.cli.main import main as pykubelet

        pykubelet(arguments[2:])
    found = PATHS[arguments[0]]()
    for file, function in found if "--functions" in arguments else ((file, "") for file in modules(found)):
        print(file, function)
    print(f"{len(modules(found))} modules")


if __name__ == "__main__":
    main(sys.argv[1:])
