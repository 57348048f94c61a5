"""Pods that are stuck on a whole node: the explanation names the blocking step and what would unblock it."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykubelet.api.scheme import PODS
from pykubelet.api.serializer import Document, from_document
from pykubelet.app.node import Node
from pykubelet.kubelet.explain.explainer import with_api_finalizers
from pykubelet.kubelet.explain.explanation import Explanation
from pykubelet.runtimes.sim.runtime import Behaviour, ContainerRun, ImageBehaviour
from whole_node import NAMESPACE, World, container, is_ready, world

CHECK = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1000}
SCRIPTS = {
    "sick": Behaviour(is_healthy=False),
    "crash": Behaviour(runs=(ContainerRun(seconds=1, exit_code=3),)),
    "slow": Behaviour(runs=(ContainerRun(seconds=600),)),
    "deaf": Behaviour(stop_seconds=1e6),
    "hook": Behaviour(hangs_on=("run",)),
    "late": Behaviour(hangs_on=("stop",)),
}
IMAGES = {
    "example/broken:1": ImageBehaviour(pull_error="no such host"),
    "example/large:1": ImageBehaviour(pull_seconds=600),
}
HOOK = {"exec": {"command": ["hook"]}}


class Stuck(NamedTuple):
    """A stuck pod's spec, its blocking step, and words of the explanation and the advice."""

    spec: dict[str, Any]
    step: str
    said: str
    advice: str = ""


def of(name: str = "main", **fields: Any) -> dict[str, Any]:
    """A pod of one container."""
    return {"containers": [container(name, **fields)]}


def reference(kind: str) -> list[Document]:
    """A variable that references an object that does not exist."""
    return [{"name": "KEY", "valueFrom": {kind: {"name": "settings", "key": "key"}}}]


def volume(**source: Any) -> dict[str, Any]:
    """A pod with a volume."""
    mount = {"name": "v", "mountPath": "/v"}
    return {"volumes": [{"name": "v", **source}], **of(volumeMounts=[mount])}


INIT = {**of(), "initContainers": [container("slow")]}
STARTING = {
    "image cannot be pulled": Stuck(of(image="example/broken:1"), "image", "no such host", "registry"),
    "image is being pulled": Stuck(of(image="example/large:1"), "image", "being pulled", "the pull ends"),
    "image never pulled": Stuck(of(imagePullPolicy="Never"), "image", "example/image:1", "imagePullPolicy"),
    "config map in env": Stuck(
        of(env=reference("configMapKeyRef")), "configuration", 'configmap "settings" not found', "create the configmap"
    ),
    "secret in env": Stuck(
        of(env=reference("secretKeyRef")), "configuration", 'secret "settings" not found', "create the secret settings"
    ),
    "config map in a volume": Stuck(
        volume(configMap={"name": "settings"}),
        "configuration",
        'configmap "settings" not found',
        "create the configmap",
    ),
    "secret in a volume": Stuck(
        volume(secret={"secretName": "settings"}), "configuration", 'secret "settings" not found', "create the secret"
    ),
    "volume that cannot be": Stuck(volume(hostPath={"path": "/dev/null", "type": "Directory"}), "volume", "hostPath"),
    "readiness probe": Stuck(of("sick", readinessProbe=CHECK), "readiness probe", "container sick", "answers it"),
    "startup probe": Stuck(of("sick", startupProbe=CHECK), "startup probe", "container sick", "answers it"),
    "crash loop": Stuck(of("crash"), "crash loop", "it exited with 3", "--previous"),
    "liveness probe": Stuck(
        of("sick", livenessProbe={**CHECK, "failureThreshold": 1}), "crash loop", "failed liveness probe", "log"
    ),
    "init container runs": Stuck(INIT, "init container", "init container slow to end", "exits with 0"),
    "init container fails": Stuck(
        {**of(), "initContainers": [container("crash")]}, "init container", "init container crash", "exits with 0"
    ),
    "postStart hook": Stuck(of("hook", lifecycle={"postStart": HOOK}), "hook", "postStart hook of container hook"),
    "refused for want of cpu": Stuck(
        of(resources={"requests": {"cpu": "64"}}), "admission", "OutOfcpu", "free cpu on the node"
    ),
    "refused by its selector": Stuck(
        {**of(), "nodeSelector": {"disk": "ssd"}}, "admission", "NodeAffinity", "labels that the pod asks for"
    ),
    "readiness gate": Stuck(
        {**of(), "readinessGates": [{"conditionType": "example.com/ready"}]}, "readiness gate", "example.com/ready"
    ),
    "container ended for good": Stuck(
        {"restartPolicy": "Never", "containers": [container("crash"), container()]},
        "container ended",
        "container crash, which exited with 3",
    ),
    "nothing": Stuck(of(), "nothing", "runs and is ready"),
}


def asked(node: Node, name: str = "web") -> Document:
    """The node's explanation of a pod."""
    found = node.explainer().explain(NAMESPACE, name)
    assert found is not None
    return found


@pytest.mark.parametrize("stuck", STARTING.values(), ids=STARTING)
async def test_blocking_step_of_a_pod_that_starts_is_named(tmp_path: Path, stuck: Stuck) -> None:
    """The explanation says why the pod is not ready and what would unblock it."""
    async with world(tmp_path, scripts=SCRIPTS, images=IMAGES) as outside, outside.running_node() as node:
        await outside.create("web", **stuck.spec)
        await asyncio.sleep(15)
        waits = asked(node)["waitsFor"]
        assert waits["step"] == stuck.step, waits
        assert stuck.said in waits["what"]
        assert stuck.advice in waits.get("unblock", "")


DELETED = {
    "does not obey": Stuck({**of("deaf")}, "stop", "20 s of its grace are left", "SIGTERM"),
    "preStop hook": Stuck(of("hook", lifecycle={"preStop": HOOK}), "hook", "preStop hook of container hook", "grace"),
}


@pytest.mark.parametrize("stuck", DELETED.values(), ids=DELETED)
async def test_blocking_step_of_a_pod_that_ends_is_named(tmp_path: Path, stuck: Stuck) -> None:
    """The explanation of a terminating pod gives the cause and the advice."""
    async with world(tmp_path, scripts=SCRIPTS) as outside, outside.running_node() as node:
        await outside.create("web", terminationGracePeriodSeconds=25, **stuck.spec)
        await outside.until("web", is_ready)
        await outside.delete("web")
        await asyncio.sleep(5)
        waits = asked(node)["waitsFor"]
        assert waits["step"] == stuck.step, waits
        assert stuck.said in waits["what"]
        assert stuck.advice in waits["unblock"]


async def test_runtime_that_does_not_kill_is_named_after_the_grace(tmp_path: Path) -> None:
    """The container is the blocking step during the grace period, then the runtime is."""
    async with world(tmp_path, scripts=SCRIPTS) as outside, outside.running_node() as node:
        await outside.create("web", terminationGracePeriodSeconds=5, **of("late"))
        await outside.until("web", is_ready)
        await outside.delete("web")
        await asyncio.sleep(10)
        assert asked(node)["waitsFor"]["step"] == "runtime"


async def test_finalizer_is_named_when_nothing_runs_any_more(tmp_path: Path) -> None:
    """A pod without running containers stays in the API while it has a finalizer."""
    async with world(tmp_path) as outside, outside.running_node() as node:
        await outside.create("web")
        await outside.until("web", is_ready)
        await outside.api.patch(PODS, "web", {"metadata": {"finalizers": ["example.com/keep"]}}, namespace=NAMESPACE)
        await outside.delete("web")
        await asyncio.sleep(10)
        waits = asked(node)["waitsFor"]
        assert (waits["step"], "nothing of it runs any more" in waits["what"]) == ("finalizer", True)
        told = with_api_finalizers(from_document(asked(node), Explanation), await outside.pod("web"))
        assert "example.com/keep" in told.waits_for.what


def manifest(image: str = "example/image:1", name: str = "deaf") -> str:
    """The manifest of a static pod with one container."""
    spec = {"containers": [container(name, image=image)], "terminationGracePeriodSeconds": 30}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})


class Manifests:
    """A folder of manifests, and a node that runs them."""

    def __init__(self, outside: World) -> None:
        self.folder = outside.folder / "manifests"
        self.folder.mkdir()

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)


async def test_static_pod_waits_for_the_former_of_its_name(tmp_path: Path) -> None:
    """The edited pod waits for the former pod, whose blocking container is named; a removed pod waits for its stop."""
    async with world(tmp_path, scripts=SCRIPTS) as outside:
        manifests = Manifests(outside)
        manifests.write("a.json", manifest())
        async with outside.running_node(manifests=(manifests.folder,)) as node:
            await outside.until("web-node-1", is_ready)
            manifests.write("a.json", manifest("example/image:2"))
            await asyncio.sleep(5)
            waits = asked(node)["waitsFor"]
            assert waits["step"] == "turn"
            assert "container deaf to end" in waits["what"]
            (manifests.folder / "a.json").unlink()
            await asyncio.sleep(5)
            assert asked(node, "web-node-1")["waitsFor"]["step"] == "stop"


async def test_broken_manifest_and_lost_duplicate_are_named(tmp_path: Path) -> None:
    """The explanation names a file whose pod duplicates another, and a file that cannot be parsed."""
    async with world(tmp_path) as outside:
        manifests = Manifests(outside)
        manifests.write("a.json", manifest())
        async with outside.running_node(manifests=(manifests.folder,)) as node:
            await outside.until("web-node-1", is_ready)
            manifests.write("b.json", manifest("example/image:2"))
            await asyncio.sleep(30)
            lost = asked(node)
            assert lost["waitsFor"]["step"] == "duplicate"
            assert str(manifests.folder / "b.json") in lost["waitsFor"]["what"]
            manifests.write("a.json", "{")
            await asyncio.sleep(30)
            broken = asked(node)
            assert broken["waitsFor"]["step"] == "manifest"
            assert str(manifests.folder / "a.json") in broken["waitsFor"]["what"]
            manifests.write("a.json", manifest())
            (manifests.folder / "b.json").unlink()
            await asyncio.sleep(30)
            assert asked(node)["waitsFor"]["step"] == "nothing"


async def test_pod_of_a_manifest_that_never_made_sense_is_explained(tmp_path: Path) -> None:
    """An unknown pod is explained with the unreadable manifests, which have no pod name, or not at all."""
    async with world(tmp_path) as outside:
        manifests = Manifests(outside)
        async with outside.running_node(manifests=(manifests.folder,)) as node:
            assert node.explainer().explain(NAMESPACE, "web") is None
            manifests.write("a.json", "{")
            await asyncio.sleep(30)
            assert str(manifests.folder / "a.json") in asked(node)["waitsFor"]["what"]


async def test_critical_pod_waits_for_those_that_have_to_go(tmp_path: Path) -> None:
    """The explanation names the pod that is being preempted."""
    async with world(tmp_path, scripts=SCRIPTS) as outside, outside.running_node() as node:
        half = {"requests": {"cpu": "1500m"}}
        await outside.create("small", terminationGracePeriodSeconds=60, **of("deaf", resources=half))
        await outside.until("small", is_ready)
        await outside.create("web", priorityClassName="system-node-critical", **of(resources=half))
        await asyncio.sleep(5)
        waits = asked(node)["waitsFor"]
        assert (waits["step"], "default/small" in waits["what"]) == ("room", True)


async def test_trail_records_all_steps_of_a_static_pod(tmp_path: Path) -> None:
    """The trail lists source, admission, image, container, probe and status in order."""
    async with world(tmp_path) as outside:
        manifests = Manifests(outside)
        text = json.loads(manifest(name="main"))
        text["spec"]["containers"][0]["readinessProbe"] = CHECK
        manifests.write("a.json", json.dumps(text))
        async with outside.running_node(manifests=(manifests.folder,)) as node:
            await outside.until("web-node-1", is_ready)
            await asyncio.sleep(1)
            told = [(entry["station"], entry["what"]) for entry in asked(node)["trail"]]
    wanted = [
        ("sources", "read"),
        ("loop", "added"),
        ("admission", "admitted"),
        ("workers", "sync"),
        ("events", "Pulling"),
        ("events", "Started"),
        ("probes", "readiness probe"),
        ("status", "sent"),
    ]
    # A status is sent several times; only the last entry counts.
    assert [one for one in reversed(dict.fromkeys(reversed(told))) if one in wanted] == wanted
