"""`kubectl logs` of containers that are processes: limits, timestamps, following, and previous runs."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from process_cluster import NODE, ProcessCluster, pod, shell

# The limit for all waits of one test together.
pytestmark = pytest.mark.timeout(120)
FOREVER = "exec sleep 1000"


@pytest.fixture(scope="module")
def lines(cluster: ProcessCluster) -> str:
    """A pod that prints ten lines, one each half second, and exits."""
    script = "for number in 0 1 2 3 4 5 6 7 8 9; do echo line $number; sleep 0.5; done"
    cluster.create(pod("lines", shell(script), restartPolicy="Never"))
    return "lines"


def numbers(text: str) -> list[int]:
    return [int(line.rpartition(" ")[2]) for line in text.splitlines()]


def test_followed_log_comes_as_it_is_written_and_ends_with_its_container(cluster: ProcessCluster, lines: str) -> None:
    """The first line arrives while the pod runs; no line is lost or repeated."""
    cluster.until("jsonpath={.status.containerStatuses[0].state.running}", lines)
    with cluster.kubectl.start("logs", lines, "--follow") as logs:
        assert logs.stdout is not None
        assert logs.stdout.readline() == "line 0\n"
        assert cluster.pod(lines)["status"]["phase"] == "Running"
        assert numbers(logs.stdout.read()) == list(range(1, 10))
        assert logs.wait() == 0
    cluster.until_field(".status.phase", "Succeeded", lines)


def test_log_is_limited_by_lines_bytes_and_age(cluster: ProcessCluster, lines: str) -> None:
    cluster.until_field(".status.phase", "Succeeded", lines)
    assert numbers(cluster.kubectl("logs", lines)) == list(range(10))
    assert numbers(cluster.kubectl("logs", lines, "--tail=3")) == [7, 8, 9]
    assert cluster.kubectl("logs", lines, "--tail=0") == ""
    assert cluster.kubectl("logs", lines, "--limit-bytes=10") == "line 0\nlin"
    assert numbers(cluster.kubectl("logs", lines, "--since=1h")) == list(range(10))
    # The first lines are older than that by now; how many of the last ones are depends on the machine's load.
    recent = numbers(cluster.kubectl("logs", lines, "--since=2s"))
    assert recent == list(range(10))[len(range(10)) - len(recent) :]
    assert 0 not in recent
    assert numbers(cluster.kubectl("logs", lines, "--follow", "--tail=2")) == [8, 9]


def test_log_has_timestamps_in_order(cluster: ProcessCluster, lines: str) -> None:
    """`--since-time` with a time from the log cuts it there."""
    cluster.until_field(".status.phase", "Succeeded", lines)
    stamped = cluster.kubectl("logs", lines, "--timestamps").splitlines()
    moments = [line.split(" ")[0] for line in stamped]
    times = [datetime.fromisoformat(moment) for moment in moments]
    assert times == sorted(times)
    assert times[-1] - times[0] >= timedelta(seconds=4.4)
    assert numbers("\n".join(stamped)) == list(range(10))
    # kubectl sends only whole seconds.
    asked = times[5].replace(microsecond=0) + timedelta(seconds=1)
    expected = [number for number, at in enumerate(times) if at >= asked]
    assert numbers(cluster.kubectl("logs", lines, f"--since-time={asked.isoformat()}")) == expected


def test_log_of_the_run_before_is_kept(cluster: ProcessCluster, tmp_path: Path) -> None:
    """--previous shows the previous run; a container that was never restarted has none."""
    again = f"test -f {tmp_path}/again && {{ echo second; {FOREVER}; }}"
    script = f"{again}; touch {tmp_path}/again; echo first; exit 1"
    cluster.create(pod("twice", shell(script), shell(FOREVER, "once")))
    cluster.until_field(".status.containerStatuses[0].restartCount", "1", "twice")
    cluster.until("condition=Ready", "twice")
    assert cluster.kubectl("logs", "twice", "-c", "main", "--previous") == "first\n"
    assert cluster.kubectl("logs", "twice", "-c", "main") == "second\n"
    refused = cluster.kubectl.fails("logs", "twice", "-c", "once", "--previous")
    assert 'previous terminated container "once" in pod "twice" not found' in refused


def test_log_is_that_of_the_selected_container(cluster: ProcessCluster) -> None:
    """It may be an init container or a sidecar; without a choice, the first container is the default."""
    init = [shell("echo from init", "init"), shell(f"echo from sidecar; {FOREVER}", "sidecar", restartPolicy="Always")]
    both = [shell(f"echo from {name}; echo error of {name} >&2; {FOREVER}", name) for name in ("left", "right")]
    cluster.run(pod("many", *both, initContainers=init))
    for name in ("init", "sidecar", "right"):
        assert f"from {name}\n" in cluster.kubectl("logs", "many", "-c", name)
    default = cluster.kubectl.run("logs", "many")
    assert sorted(default.stdout.splitlines()) == ["error of left", "from left"]
    assert 'Defaulted container "left" out of: left, right' in default.stderr
    everything = cluster.kubectl("logs", "many", "--all-containers", "--prefix").splitlines()
    assert "[pod/many/sidecar] from sidecar" in everything
    assert len(everything) == 6
    assert "container nobody is not valid for pod many" in cluster.kubectl.fails("logs", "many", "-c", "nobody")


def test_log_of_a_container_that_waits_is_refused(cluster: ProcessCluster) -> None:
    """The error has the reason for which it waits."""
    cluster.create(pod("unstarted", shell(FOREVER), initContainers=[shell(FOREVER, "init")]))
    cluster.until("jsonpath={.status.initContainerStatuses[0].state.running}", "unstarted")
    expected = 'container "main" in pod "unstarted" is waiting to start: PodInitializing'
    assert expected in cluster.kubectl.fails("logs", "unstarted", "-c", "main")


def test_log_of_a_static_pod_is_read_by_its_mirror(cluster: ProcessCluster) -> None:
    """The static pod has another UID than its mirror pod."""
    manifest = cluster.manifests / "static.yaml"
    command = "[/bin/sh, -c, 'echo from a file; exec sleep 1000']"
    container = f"{{name: main, image: example/image:1, command: {command}}}"
    manifest.write_text(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: static}}\nspec: {{containers: [{container}]}}\n")
    cluster.kubectl("wait", "--for=create", "--timeout=30s", f"pod/static-{NODE}")
    cluster.until("condition=Ready", f"static-{NODE}")
    assert cluster.kubectl("logs", f"static-{NODE}") == "from a file\n"
    manifest.unlink()
    cluster.until("delete", f"static-{NODE}")
