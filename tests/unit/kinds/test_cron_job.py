"""The rules of CronJobs."""

from typing import Any

import pytest

from pykubelet.kinds import cron_job
from strategy_calls import POD_SPEC, create, update, update_status

CRON_JOBS = cron_job.KIND.strategy


def _cron_job(job: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"spec": {**POD_SPEC, "restartPolicy": "OnFailure"}}
    job_template = {"spec": {"template": template, **(job or {})}}
    document = {"schedule": "*/5 * * * *", "jobTemplate": job_template, **spec}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "spec": document}


def test_cron_job_gets_defaults_when_fields_are_missing() -> None:
    """The job template gets the defaults of pods, not those of jobs."""
    stored, messages = create(CRON_JOBS, _cron_job())
    spec = {name: value for name, value in stored["spec"].items() if name != "jobTemplate"}
    assert messages == []
    assert spec == {
        "schedule": "*/5 * * * *",
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    job = stored["spec"]["jobTemplate"]["spec"]
    assert set(job) == {"template"}
    assert job["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert stored["status"] == {}


_ZONE = "spec.timeZone: Invalid value: "
_CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no schedule": (_cron_job(schedule=""), ["spec.schedule: Required value"]),
    "short schedule": (
        _cron_job(schedule="* *"),
        ['spec.schedule: Invalid value: "* *": expected exactly 5 fields, found 2: [* *]'],
    ),
    "zone in the schedule": (
        _cron_job(schedule="TZ=UTC * * * * *"),
        [
            'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead'
        ],
    ),
    "good zone": (_cron_job(timeZone="Europe/Berlin"), []),
    "no zone": (_cron_job(timeZone=""), [f'{_ZONE}"": timeZone must be nil or non-empty string']),
    "bad zone": (_cron_job(timeZone="../etc"), [f'{_ZONE}"../etc": unknown time zone ../etc']),
    "unknown zone": (_cron_job(timeZone="Mars/Base"), [f'{_ZONE}"Mars/Base": unknown time zone Mars/Base']),
    "local zone": (
        _cron_job(timeZone="Local"),
        [f'{_ZONE}"Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones'],
    ),
    "limits": (
        _cron_job(startingDeadlineSeconds=-1, failedJobsHistoryLimit=-1, concurrencyPolicy="Wait"),
        [
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            'spec.concurrencyPolicy: Unsupported value: "Wait": supported values: "Allow", "Forbid", "Replace"',
            "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
    "job template": (
        _cron_job({"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}, "backoffLimit": -1}),
        [
            "spec.jobTemplate.spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
            'spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated',
            'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"',
        ],
    ),
    "long name": (
        {**_cron_job(), "metadata": {"name": "a" * 53}},
        [f'metadata.name: Invalid value: "{"a" * 53}": must be no more than 52 characters'],
    ),
}


@pytest.mark.parametrize(("document", "messages"), _CASES.values(), ids=_CASES.keys())
def test_cron_job_is_rejected_when_its_spec_is_invalid(document: dict[str, Any], messages: list[str]) -> None:
    """The messages are the API server's."""
    assert create(CRON_JOBS, document)[1] == messages


def test_cron_job_may_keep_a_zone_in_its_schedule_when_it_had_one() -> None:
    """It may not be combined with the timeZone field that replaced it."""
    stored, _ = create(CRON_JOBS, _cron_job(schedule="TZ=UTC * * * * *"))
    assert update(CRON_JOBS, stored, {"spec": {"schedule": "CRON_TZ=UTC 5 * * * *"}})[1] == []
    assert update(CRON_JOBS, stored, {"spec": {"timeZone": "Etc/UTC"}})[1] == [
        'spec.schedule: Invalid value: "TZ=UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule'
    ]


def test_cron_job_status_is_not_validated() -> None:
    """Upstream does not validate it either; the spec does not change."""
    stored, _ = create(CRON_JOBS, _cron_job())
    status = {"lastScheduleTime": "2026-01-01T00:00:00Z"}
    new, messages = update_status(CRON_JOBS, stored, {"spec": {"suspend": True}, "status": status})
    assert (new["status"], new["spec"]["suspend"], messages) == (status, False, [])
