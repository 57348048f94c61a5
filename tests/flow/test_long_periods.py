"""Periods and deadlines of any 64-bit number of seconds: they last as long as the longest that Go can express."""

from pathlib import Path
from typing import Any

import pytest

from job_rig import batch_world, counts
from pykubelet.api.errors import ApiError
from pykubelet.api.times import MAX_DURATION_SECONDS
from pykubelet.controllers.job.status import is_finished
from pykubelet.runtimes.sim.runtime import Behaviour
from pykubelet.testing.local_api import local_api
from verb_requests import JSON_PATCH, MERGE, Asker, config_map, pod
from whole_node import is_ready, world

LONGEST = 2**63 - 1


@pytest.mark.parametrize("seconds", [LONGEST, 2**40])
async def test_job_with_the_longest_deadline_completes(tmp_path: Path, seconds: int) -> None:
    """The deadline is neither an error of the controller nor in the past."""
    async with batch_world(tmp_path) as outside, outside.controllers():
        await outside.create_job(activeDeadlineSeconds=seconds, ttlSecondsAfterFinished=2**31 - 1)
        job = await outside.until(is_finished)
        assert counts(job.status) == (0, 1, 0)


async def test_pod_with_the_longest_grace_period_is_deleted(tmp_path: Path) -> None:
    """The node stops it, the deletion can be shortened, and its namespace ends."""
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        await asker.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        path = "/api/v1/namespaces/team/pods"
        for name in ("slow", "kept"):
            await asker.ask("POST", path, pod(name, terminationGracePeriodSeconds=LONGEST, nodeName="n"))
        deleted = (await asker.ask("DELETE", f"{path}/slow"))["metadata"]
        assert deleted["deletionGracePeriodSeconds"] == MAX_DURATION_SECONDS
        assert deleted["deletionTimestamp"].startswith("2318-")
        shorter = (await asker.ask("DELETE", f"{path}/slow", {"gracePeriodSeconds": 30}))["metadata"]
        assert shorter["deletionGracePeriodSeconds"] == 30
        assert shorter["deletionTimestamp"].startswith("2026-")
        await asker.ask("DELETE", f"{path}/kept", {"gracePeriodSeconds": LONGEST})
        for name in ("slow", "kept"):
            await asker.ask("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
        await asker.ask("DELETE", "/api/v1/namespaces/team")
        assert (await asker.ask("GET", path))["items"] == []


@pytest.mark.parametrize("seconds", [LONGEST, 2**33, -LONGEST - 1])
async def test_node_runs_and_stops_a_pod_with_any_period(tmp_path: Path, seconds: int) -> None:
    """Its container gets its time to stop and is not killed before."""
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]
    deadline = {"activeDeadlineSeconds": 2**31 - 1, "tolerations": tolerations}
    script = {"main": Behaviour(stop_seconds=1, stop_exit_code=3)}
    async with world(tmp_path, scripts=script) as outside, outside.running_node():
        await outside.create("web", terminationGracePeriodSeconds=seconds, **deadline)
        started = await outside.until("web", is_ready, within_seconds=5)
        assert started.status.phase == "Running"
        await outside.delete("web")
        await outside.until_gone("web")


_DIGITS = "9" * 5000
_NUMBERS: dict[str, tuple[str, str, Any, str]] = {
    "integer": ("POST", "/pods", b'{"metadata":{"name":"a"},"spec":{"priority":%s}}' % _DIGITS.encode(), ""),
    "unknown field": ("POST", "/configmaps", b'{"metadata":{"name":"a"},"x":%s}' % _DIGITS.encode(), ""),
    "index": ("PATCH", "/configmaps/c", [{"op": "remove", "path": f"/metadata/finalizers/{_DIGITS}"}], JSON_PATCH),
    "quantity": ("POST", "/pods", pod("a", overhead={"cpu": f"1e{_DIGITS}"}), ""),
    "merge patch": ("PATCH", "/configmaps/c", b'{"x":%s}' % _DIGITS.encode(), MERGE),
    "YAML": ("POST", "/configmaps", b"metadata:\n  name: a\nx: %s\n" % _DIGITS.encode(), "application/yaml"),
    "label selector": ("GET", f"/pods?labelSelector=a%3E{_DIGITS}", None, ""),
    "limit": ("GET", f"/pods?limit={_DIGITS}", None, ""),
    "resourceVersion": ("GET", f"/pods?resourceVersion={_DIGITS}", None, ""),
    "grace period": ("DELETE", f"/configmaps/c?gracePeriodSeconds={_DIGITS}", None, ""),
}


@pytest.mark.parametrize("name", _NUMBERS)
async def test_number_of_thousands_of_digits_is_an_error_of_the_client(tmp_path: Path, name: str) -> None:
    """Python refuses to convert so many digits; the server does not fail because of that."""
    method, path, body, content_type = _NUMBERS[name]
    async with local_api(tmp_path) as api:
        asker = Asker(api)
        namespace = "/api/v1/namespaces/default"
        await asker.ask("POST", f"{namespace}/configmaps", config_map("c", finalizers=["example.com/a"]))
        code = 200
        try:
            await asker.ask(method, namespace + path, body, content_type)
        except ApiError as error:
            code = error.code
        assert code < 500
