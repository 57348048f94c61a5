"""API pods run as processes: init containers, sidecars, exits, crash loops, and deletion."""

import os
import select
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from process_cluster import PATIENCE, ProcessCluster, pod, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"
# `$$`, the shell's own PID: in a command of a container, `$$` stands for one `$`.
OWN_PID = "$$$$"
# A finalizer keeps a finished pod, so that its last status can be read.
HOLD = "example.com/hold"


def held(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "finalizers": [HOLD]}}


def let_go(cluster: ProcessCluster, name: str) -> None:
    cluster.kubectl("patch", "pod", name, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster.until("delete", name)


def ends_of(document: Any, kind: str = "containerStatuses") -> dict[str, Any]:
    """The `terminated` state of each container of a pod."""
    return {status["name"]: status["state"].get("terminated") for status in document["status"][kind]}


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_init_containers_run_one_after_the_other_before_the_rest(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The API shows exit code and reason of each."""
    steps = [shell(f"echo {name} >>{tmp_path}/told", name) for name in ("first", "second")]
    main = shell(f"echo main >>{tmp_path}/told; {FOREVER}")
    shown = cluster.run(pod("initialized", main, initContainers=steps))
    assert (tmp_path / "told").read_text().split() == ["first", "second", "main"]
    ended = ends_of(shown, "initContainerStatuses")
    assert {name: (end["exitCode"], end["reason"]) for name, end in ended.items()} == {
        "first": (0, "Completed"),
        "second": (0, "Completed"),
    }


def test_failing_init_container_keeps_the_rest_from_starting(cluster: ProcessCluster, tmp_path: Path) -> None:
    """With restartPolicy Never the pod fails, and its main container never runs."""
    main, steps = shell(f"touch {tmp_path}/ran"), [shell("exit 5", "first")]
    shown = cluster.finish(pod("uninitialized", main, restartPolicy="Never", initContainers=steps), "Failed")
    assert ends_of(shown, "initContainerStatuses")["first"]["exitCode"] == 5
    assert shown["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "PodInitializing"
    assert not (tmp_path / "ran").exists()


def test_sidecar_is_there_from_before_until_after_the_main_container(cluster: ProcessCluster, tmp_path: Path) -> None:
    """It does not keep the pod from ending."""
    loop = "while true; do sleep 0.05; done"
    sidecar = shell(
        f"trap 'echo sidecar ends >>{tmp_path}/told; exit 0' TERM; echo sidecar >>{tmp_path}/told; touch {tmp_path}/up; {loop}",
        "sidecar",
        restartPolicy="Always",
        startupProbe={"exec": {"command": ["test", "-f", f"{tmp_path}/up"]}, "periodSeconds": 1},
    )
    main = shell(f"echo main >>{tmp_path}/told; sleep 0.3; echo main ends >>{tmp_path}/told")
    shown = cluster.finish(pod("accompanied", main, restartPolicy="Never", initContainers=[sidecar]))
    assert (tmp_path / "told").read_text().splitlines() == ["sidecar", "main", "main ends", "sidecar ends"]
    assert ends_of(shown)["main"]["exitCode"] == 0
    assert ends_of(shown, "initContainerStatuses")["sidecar"]["exitCode"] == 0


ENDS = {
    "zero": ("exit 0", "Succeeded", 0, "Completed", None),
    "three": ("exit 3", "Failed", 3, "Error", None),
    "killed": (f"kill -9 {OWN_PID}", "Failed", 137, "Error", None),
    "last-words": ("echo too bad >/dev/termination-log; exit 1", "Failed", 1, "Error", "too bad\n"),
    "log-as-last-words": ("echo said; exit 1", "Failed", 1, "Error", "said\n"),
}


def test_finished_pods_show_how_they_ended(cluster: ProcessCluster) -> None:
    """They show phase, exit code, reason and termination message."""
    policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    names = {name: f"ends-{name}" for name in ENDS}
    cluster.create(*(pod(names[end], shell(ENDS[end][0], **policy), restartPolicy="Never") for end in ENDS))
    told = {}
    for end, (script, phase, *_) in ENDS.items():
        cluster.until_field(".status.phase", phase, names[end])
        shown = ends_of(cluster.pod(names[end]))["main"]
        told[end] = (script, phase, shown["exitCode"], shown["reason"], shown.get("message"))
    assert told == ENDS
    assert cluster.pod("ends-zero")["status"]["conditions"][2]["reason"] == "PodCompleted"


def test_pod_restarts_its_container_until_it_succeeds(cluster: ProcessCluster, tmp_path: Path) -> None:
    """With restartPolicy OnFailure, the first restart happens without backoff."""
    script = f"test -f {tmp_path}/before && exit 0; touch {tmp_path}/before; exit 9"
    shown = cluster.finish(pod("tries", shell(script), restartPolicy="OnFailure"))
    status = shown["status"]["containerStatuses"][0]
    assert (status["restartCount"], status["state"]["terminated"]["exitCode"]) == (1, 0)


def test_missing_program_is_reported(cluster: ProcessCluster) -> None:
    """The container's state and an event name it."""
    missing = {"name": "main", "image": "example/image:1", "command": ["/no/such/program"]}
    shown = cluster.finish(pod("missing", missing, restartPolicy="Never"), "Failed")
    end = ends_of(shown)["main"]
    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    assert "/no/such/program" in end["message"]
    assert "/no/such/program" in cluster.until_said("missing", "Failed", "Error: ")


def test_crashing_container_backs_off(cluster: ProcessCluster) -> None:
    """It restarts at once, then after 10 s, then after 20 s; status and events show the backoff."""
    cluster.create(pod("crashing", shell("exit 1")))
    waiting = ".status.containerStatuses[0].state.waiting"
    for pause in (10, 20):
        words = f"CrashLoopBackOff: back-off {pause}s restarting failed container=main pod=crashing_default"
        cluster.until_seen(words, f"{{{waiting}.reason}}: {{{waiting}.message}}", "pod", "crashing")
    shown = cluster.pod("crashing")
    status = shown["status"]["containerStatuses"][0]
    last = status["lastState"]["terminated"]
    assert (status["restartCount"], last["exitCode"]) == (2, 1)
    # The API has whole seconds.
    assert moment(last["startedAt"]) - moment(shown["metadata"]["creationTimestamp"]) >= 9
    whose = f"container main in pod crashing_default({shown['metadata']['uid']})"
    assert cluster.until_said("crashing", "BackOff", f"Back-off restarting failed {whose}")


def test_deleted_pod_has_its_grace(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The exit code of a container that handles TERM is shown before the pod is removed."""
    script = f"trap 'echo bye >{tmp_path}/told; exit 4' TERM; while true; do sleep 0.05; done"
    cluster.run(held(pod("obedient", shell(script), terminationGracePeriodSeconds=60)))
    cluster.kubectl("delete", "pod", "obedient", "--wait=false")
    cluster.until_field(".status.phase", "Failed", "obedient")
    assert ends_of(cluster.pod("obedient"))["main"]["exitCode"] == 4
    assert (tmp_path / "told").read_text() == "bye\n"
    let_go(cluster, "obedient")


def test_deleted_pod_is_killed_after_its_grace(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The grace period of the deletion overrides the longer one of the pod."""
    script = f"trap 'touch {tmp_path}/asked' TERM; while true; do sleep 0.05; done"
    cluster.run(held(pod("stubborn", shell(script), terminationGracePeriodSeconds=1000)))
    cluster.kubectl("delete", "pod", "stubborn", "--grace-period=1", "--wait=false")
    cluster.until_field(".status.phase", "Failed", "stubborn")
    shown = cluster.pod("stubborn")
    assert ends_of(shown)["main"]["exitCode"] == 137
    assert (tmp_path / "asked").exists()
    let_go(cluster, "stubborn")


def test_forced_deletion_removes_the_pod_at_once_and_its_process_soon(cluster: ProcessCluster, tmp_path: Path) -> None:
    """The API removes the pod without waiting for the node, which then kills the process."""
    cluster.run(pod("forced", shell(f"trap '' TERM; echo {OWN_PID} >{tmp_path}/pid; while true; do sleep 0.05; done")))
    process = os.pidfd_open(int((tmp_path / "pid").read_text()))
    cluster.kubectl("delete", "pod", "forced", "--force", "--grace-period=0", PATIENCE)
    assert "NotFound" in cluster.kubectl.fails("get", "pod", "forced")
    ended, _, _ = select.select([process], [], [], 30)
    os.close(process)
    assert ended == [process]


def test_pod_past_its_deadline_is_ended(cluster: ProcessCluster) -> None:
    """A pod that exceeds activeDeadlineSeconds fails with DeadlineExceeded."""
    shown = cluster.finish(pod("late", shell(FOREVER), activeDeadlineSeconds=1), "Failed")
    assert shown["status"]["reason"] == "DeadlineExceeded"
    assert shown["status"]["message"] == "Pod was active on the node longer than the specified deadline"
    assert ends_of(shown)["main"]["exitCode"] == 143
