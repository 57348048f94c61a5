"""Warnings about objects that create pods."""

from collections.abc import Callable
from typing import Any

import pytest

from pykubelet.kinds import cron_job, daemon_set, pod_template, replication_controller, stateful_set
from pykubelet.kinds.job import strategy as job

Warn = Callable[[dict[str, Any]], list[str]]
Change = Callable[[dict[str, Any], dict[str, Any]], list[str]]

_GRACE = "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
_BAD = {"metadata": {}, "spec": {"terminationGracePeriodSeconds": -1}}
_GOOD: dict[str, Any] = {"metadata": {}, "spec": {}}
_NAME = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
    "recommended: [must not contain dots]"
)


def _set(template: Any = None, *, name: str = "a", generation: int = 1, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "generation": generation}, "spec": {"template": template or _GOOD, **spec}}


def _cron(template: Any = None, *, schedule: str = "* * * * *", **metadata: Any) -> dict[str, Any]:
    job = _set(template)
    return {"metadata": {"name": "a", **metadata}, "spec": {"schedule": schedule, "jobTemplate": {"spec": job["spec"]}}}


@pytest.mark.parametrize(
    ("warn", "document", "warnings"),
    [
        pytest.param(pod_template.replicas_warnings, _set(_BAD), [f"spec.template.{_GRACE}"], id="deployment"),
        pytest.param(pod_template.replicas_warnings, _set(name="a.b"), [_NAME], id="name"),
        pytest.param(pod_template.replicas_warnings, {"metadata": {"name": "a"}, "spec": {}}, [], id="no template"),
        pytest.param(daemon_set.daemon_set_warnings, _set(_BAD, name="a.b"), [f"spec.template.{_GRACE}"], id="daemon set"),
        pytest.param(stateful_set.stateful_set_warnings, _set(_BAD), [f"spec.template.{_GRACE}"], id="stateful set"),
        pytest.param(
            stateful_set.stateful_set_warnings,
            _set(revisionHistoryLimit=-1, volumeClaimTemplates=[{"spec": {"resources": {"requests": {"storage": "1m"}}}}]),
            [
                ('spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1m" is invalid, must be '
                "an integer"),
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
            ],
            id="claims and history",
        ),
        pytest.param(job.job_warnings, _set(_BAD, name="a.b"), [_NAME, f"spec.template.{_GRACE}"], id="job"),
        pytest.param(
            job.job_warnings,
            _set(completionMode="Indexed", completions=100_001, parallelism=10_001),
            [
                ("spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
                "Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
            ],
            id="many indexes",
        ),
        pytest.param(job.job_warnings, _set(completions=100_001, parallelism=10_001), [], id="no indexes"),
        pytest.param(
            job.job_warnings,
            _set(completionMode="Indexed", completions=100_001, parallelism=10_000),
            [],
            id="not too many at once",
        ),
        pytest.param(cron_job.cron_job_warnings, _cron(_BAD), [f"spec.jobTemplate.spec.template.{_GRACE}"], id="cron job"),
        pytest.param(
            pod_template.pod_template_warnings, {"metadata": {}, "template": _BAD}, [f"template.{_GRACE}"], id="template"
        ),
    ],
)  # fmt: skip
def test_new_object_warns(warn: Warn, document: dict[str, Any], warnings: list[str]) -> None:
    """Warnings are about its name, its template and fields of its kind."""
    assert warn(document) == warnings


@pytest.mark.parametrize(
    ("warn", "make", "path"),
    [
        pytest.param(pod_template.template_change_warnings, _set, "spec.template.", id="deployment"),
        pytest.param(stateful_set.stateful_set_change_warnings, _set, "spec.template.", id="stateful set"),
        pytest.param(job.job_change_warnings, _set, "spec.template.", id="job"),
        pytest.param(cron_job.cron_job_change_warnings, _cron, "spec.jobTemplate.spec.template.", id="cron job"),
        pytest.param(
            pod_template.pod_template_change_warnings,
            lambda template, generation: {"metadata": {"generation": generation}, "template": template},
            "template.",
            id="template",
        ),
    ],
)
def test_changed_object_warns_when_its_generation_moved(warn: Change, make: Callable[..., Any], path: str) -> None:
    """The warnings do not depend on what changed."""
    old = make(_BAD, generation=1)
    assert warn(make(_BAD, generation=1), old) == []
    assert warn(make(_BAD, generation=2), old) == [f"{path}{_GRACE}"]


def test_changed_daemon_set_warns_when_its_template_changed() -> None:
    """Other changes do not cause the warning."""
    assert daemon_set.daemon_set_change_warnings(_set(_BAD, generation=2), _set(_BAD)) == []
    assert daemon_set.daemon_set_change_warnings(_set(_BAD), _set()) == [f"spec.template.{_GRACE}"]


def test_changed_replication_controller_warns_about_its_old_template() -> None:
    """Upstream does so too."""
    warn = replication_controller.replication_controller_change_warnings
    assert warn(_set(generation=2), _set(_BAD)) == [f"spec.template.{_GRACE}"]
    assert warn(_set(_BAD, generation=2), _set()) == []
    assert warn(_set(_BAD), _set(_BAD)) == []
    assert warn(_set(generation=2), {"metadata": {"generation": 1}, "spec": {}}) == []


def test_changed_stateful_set_warns_about_claims_by_another_path() -> None:
    """It warns even when nothing has changed."""
    claims = [{"spec": {"resources": {"limits": {"storage": "1m"}}}}]
    document = _set(volumeClaimTemplates=claims)
    assert stateful_set.stateful_set_change_warnings(document, document) == [
        (
            'spec.volumeClaimTemplates[0].Spec.resources.limits[storage]: fractional byte value "1m" is invalid, must be an '
            "integer"
        )
    ]


def test_changed_cron_job_warns_about_a_time_zone_in_its_schedule() -> None:
    """A stored schedule may be older than the rule against time zones in it."""
    document = _cron(schedule="TZ=UTC * * * * *")
    assert cron_job.cron_job_change_warnings(document, document) == [
        (
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
            "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        )
    ]
