"""Output of describe; `tests/real/cli` compares with kubectl itself."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pykubelet.api.times import parse_time
from pykubelet.cli.printers.describe.describer import description, words_of
from pykubelet.cli.printers.describe.pods import field_value, probe_text, tolerations
from pykubelet.cli.printers.describe.report import DescribedObject, Report
from pykubelet.testing.virtual_time import EPOCH

RECORDED = json.loads((Path(__file__).parent / "described.json").read_text())
META = {"name": "web", "namespace": "shop", "uid": "u1", "creationTimestamp": "2026-01-02T03:04:05Z"}
NOW = EPOCH + timedelta(days=365)


def told(kind: str, api_version: str = "v1", *, events: Any = (), related: Any = None, **fields: Any) -> str:
    document = {"apiVersion": api_version, "kind": kind, "metadata": META, **fields}
    return description(DescribedObject(object=document, events=events, related=related or {}, now=NOW))


@pytest.mark.parametrize(
    "recorded", RECORDED, ids=lambda one: f"{one['object']['kind']}-{one['object']['metadata']['name']}"
)
def test_description_is_that_of_kubectl(recorded: Any) -> None:
    """Recorded objects, and what kubectl 1.32 printed for them at that moment."""
    subject = DescribedObject(
        object=recorded["object"],
        events=recorded["events"],
        related=recorded["related"],
        now=parse_time(recorded["now"]),
    )
    assert description(subject).splitlines() == recorded["text"]


def test_unscheduled_evicted_and_crashing_pod_is_described() -> None:
    """States that a healthy pod does not have."""
    ended = {"exitCode": 3, "reason": "Error", "message": "no", "signal": 9, "startedAt": None}
    statuses = [
        {"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}},
        {"name": "b", "state": {}},
    ]
    text = told(
        "Pod",
        spec={"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
        status={"phase": "Pending", "reason": "Evicted", "message": "low", "containerStatuses": statuses},
    )
    for line in (
        "Node:         <none>",
        "Status:       Pending",
        "Reason:       Evicted",
        "Message:      low",
        "IPs:          <none>",
        "    State:          Waiting",
        "      Reason:       CrashLoopBackOff",
        "    Last State:     Terminated",
        "      Message:      no",
        "      Exit Code:    3",
        "      Signal:       9",
        "      Started:      Mon, 01 Jan 0001 00:00:00 +0000",
        "Events:           <none>",
    ):
        assert line.rstrip() in [shown.rstrip() for shown in text.splitlines()], text


def test_pod_that_is_deleted_is_terminating() -> None:
    """The duration is shown, unless the pod has ended."""
    metadata = {**META, "deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 30}
    spec = {"containers": [{"name": "a"}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    now = EPOCH.replace(year=2026, month=1, day=2, hour=3, minute=4, second=15)
    text = description(DescribedObject(object=document, now=now))
    assert "Terminating (lasts 10s)" in text
    assert "Termination Grace Period:  30s" in text
    ended = {**document, "status": {"phase": "Failed"}}
    assert "Terminating" not in description(DescribedObject(object=ended, now=now))


@pytest.mark.parametrize(
    ("probe", "text"),
    [
        ({"exec": {"command": ["cat", "x"]}}, "exec [cat x]"),
        ({"httpGet": {"path": "/a", "port": 80, "scheme": "HTTPS"}}, "http-get https://:80/a"),
        ({"httpGet": {"path": "a", "port": "web", "host": "h", "scheme": "HTTP"}}, "http-get http://h:web/a"),
        ({"tcpSocket": {"port": 80}}, "tcp-socket :80"),
        ({"grpc": {"port": 90, "service": "s"}}, "grpc <pod>:90 s"),
        ({}, "unknown"),
    ],
)
def test_probe_is_one_line(probe: dict[str, Any], text: str) -> None:
    """The handler of the probe, then its timing."""
    assert probe_text({**probe, "periodSeconds": 10}) == (
        f"{text} delay=0s timeout=0s period=10s #success=0 #failure=0"
    )


@pytest.mark.parametrize(
    ("toleration", "text"),
    [
        ({"operator": "Exists"}, "op=Exists"),
        (
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
            "a:NoExecute op=Exists for 0s",
        ),
        ({"key": "a", "value": "b", "effect": "NoSchedule"}, "a=b:NoSchedule"),
        ({"key": "a", "value": "b"}, "a=b"),
    ],
)
def test_toleration_is_one_short_text(toleration: dict[str, Any], text: str) -> None:
    """Key, value, effect and seconds."""
    assert tolerations({"tolerations": [toleration]}) == [text]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "web"),
        ("metadata.labels['a.b/c']", "x"),
        ("metadata.annotations['none']", ""),
        ("status.podIPs", "10.0.0.1,fd00::1"),
        ("spec.nodeName", ""),
        ("metadata.name.first", ""),
    ],
)
def test_field_path_is_resolved_in_the_pod(path: str, value: str) -> None:
    """Field paths are those of the downward API."""
    pod = {
        "metadata": {**META, "labels": {"a.b/c": "x"}},
        "status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
    }
    assert field_value(pod, path) == value


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("leaseDurationSeconds", "Lease Duration Seconds"),
        ("uid", "UID"),
        ("apiVersion", "API Version"),
        ("PDFLoader", "PDF Loader"),
        ("a_b2", "A B 2"),
        ("podCIDR", "Pod CIDR"),
    ],
)
def test_name_of_a_field_becomes_words(field: str, words: str) -> None:
    """Words begin at capitals and digits."""
    assert words_of(field) == words


def test_unknown_kind_is_described_with_all_its_fields() -> None:
    """Maps, lists and plain values."""
    fields = {"a": {"b": None, "on": True}, "list": [{"x": 1}, "two"], "n": 1.5}
    text = told("Thing", "example.com/v1", **fields)
    shown = [line.split() for line in text.splitlines()]
    for words in (["A:"], ["B:", "<nil>"], ["On:", "true"], ["List:"], ["X:", "1"], ["two"], ["Kind:", "Thing"]):
        assert words in shown


def test_secret_shows_only_the_sizes_of_its_values() -> None:
    """Also for the token of a service account."""
    text = told("Secret", type="kubernetes.io/service-account-token", data={"token": "aGVsbG8=", "bad": "a"})
    assert "token:  5 bytes" in text
    assert "aGVsbG8" not in text
    assert "hello" not in text


def test_config_map_escapes_control_characters() -> None:
    """Binary data is shown by its size."""
    text = told("ConfigMap", data={"a": "tab\there\x1b[31m"}, binaryData={"b": "aGVsbG8="})
    assert "tab    here^[[31m" in text
    assert "b: 5 bytes" in text


@pytest.mark.parametrize(
    ("event", "age"),
    [
        ({"firstTimestamp": "2026-01-02T03:04:05Z"}, None),
        ({"firstTimestamp": None}, "<unknown>"),
        ({"count": 3, "firstTimestamp": None, "lastTimestamp": None}, "<unknown> (x3 over <unknown>)"),
        ({"eventTime": None, "series": {"count": 4}}, "<unknown> (x4 over <unknown>)"),
    ],
)
def test_event_shows_age_and_count(event: dict[str, Any], age: str | None) -> None:
    """For events in the old and in the new form."""
    text = told("Thing", events=[{"reason": "Why", "message": " it is \n", "reportingComponent": "me", **event}])
    assert text.splitlines()[-1].endswith("it is")
    assert "me" in text
    assert age is None or age in text


def test_node_is_described_without_access_to_its_pods_and_lease() -> None:
    """With access, requests and limits are added up."""
    node: dict[str, Any] = {
        "metadata": {**META, "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "db"}},
        "spec": {
            "taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "value": "x", "effect": "NoExecute"}],
            "podCIDR": "10.0.0.0/24",
            "podCIDRs": ["10.0.0.0/24"],
            "providerID": "here://x",
            "unschedulable": True,
        },
        "status": {"capacity": {"cpu": "2", "example.com/gpu": "4"}},
    }
    text = told("Node", related={"pods": None}, **node)
    for words in ("db,worker", "a=x:NoExecute", "b:NoSchedule", "not authorized", "Failed to get lease", "here://x"):
        assert words in text
    pod = {
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {
            "overhead": {"cpu": "100m"},
            "containers": [
                {"resources": {"requests": {"cpu": "900m", "example.com/gpu": "1"}, "limits": {"cpu": "1"}}}
            ],
        },
    }
    text = told("Node", related={"pods": [pod, pod], "leases": [{"spec": {}}]}, **node)
    for words in ("2 (100%)", "1 (50%)", "example.com/gpu    2", "HolderIdentity:  <unset>"):
        assert words in text, text


def test_workloads_in_unusual_states_are_described() -> None:
    """A deployment after a rollout, a set without access to its pods, a stateful set with claims."""
    owner = {"ownerReferences": [{"controller": True, "uid": "u1", "kind": "Deployment", "name": "web"}]}
    old = {"metadata": {"name": "web-1", **owner}, "spec": {"replicas": 0, "template": {"spec": {"a": 1}}}}
    new = {
        "metadata": {"name": "web-2", **owner},
        "spec": {"replicas": 1, "template": {"spec": {}}},
        "status": {"replicas": 1},
    }
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}, "strategy": {"type": "Recreate"}}
    text = told("Deployment", "apps/v1", spec=spec, related={"replicasets": [old, new]})
    assert "OldReplicaSets:    web-1 (0/0 replicas created)" in text
    assert "NewReplicaSet:     web-2 (1/1 replicas created)" in text
    assert "may not be seen" in told("ReplicaSet", "apps/v1", spec=spec, related={"pods": None})
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    text = told("StatefulSet", "apps/v1", spec={**spec, "volumeClaimTemplates": [claim]}, related={"pods": []})
    assert "Capacity:      <default>" in text
    assert "0 Running / 0 Waiting / 0 Succeeded / 0 Failed" in text


def test_jobs_in_unusual_states_are_described() -> None:
    """A completed, indexed and suspended job, and a cron job that has run."""
    status = {"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:15Z", "succeeded": 1}
    spec = {"activeDeadlineSeconds": 5, "completionMode": "Indexed", "ttlSecondsAfterFinished": 0, "suspend": True}
    text = told("Job", "batch/v1", spec=spec, status=status)
    for words in ("Duration:", "10s", "Active Deadline Seconds:", "Completed Indexes:", "<unset>", "TTL Seconds"):
        assert words in text
    job = {"selector": {"matchLabels": {"a": "b"}}, "activeDeadlineSeconds": 5}
    cron = {"schedule": "* * * * *", "timeZone": "Etc/UTC", "startingDeadlineSeconds": 9, "jobTemplate": {"spec": job}}
    last = {"lastScheduleTime": "2026-01-02T03:04:05Z", "active": [{"name": "web-1"}]}
    text = told("CronJob", "batch/v1", spec=cron, status=last)
    for words in ("Etc/UTC", "9s", "web-1", "Fri, 02 Jan 2026 03:04:05 +0000", "Selector:", "  <unset>"):
        assert words in text


def test_service_lists_three_endpoints_and_counts_the_rest() -> None:
    """Endpoints that are not ready are left out; IPv6 addresses are put in brackets."""
    endpoints: list[dict[str, Any]] = [{"addresses": [f"10.0.0.{number}"]} for number in range(4)]
    endpoints += [{"addresses": ["fd00::1"]}, {"addresses": ["10.0.0.9"], "conditions": {"ready": False}}]
    slices = [{"ports": [{"name": "", "port": 80}, {"name": "other", "port": 1}], "endpoints": endpoints}]
    spec = {"ports": [{"port": 80, "nodePort": 30000}], "externalIPs": ["1.2.3.4"], "type": "NodePort"}
    text = told("Service", spec=spec, related={"endpointslices": slices})
    assert "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..." in text
    assert "<unset>  30000/TCP" in text
    one = [{**slices[0], "endpoints": endpoints[4:]}]
    assert "[fd00::1]:80" in told("Service", spec=spec, related={"endpointslices": one})


def test_namespace_with_quotas_and_limits_is_described() -> None:
    """Also with the conditions of a terminating namespace."""
    quota = {"metadata": {"name": "q"}, "status": {"hard": {"pods": "3"}, "used": {"pods": "1"}}}
    related = {"resourcequotas": [quota], "limitranges": [{"metadata": {"name": "l"}}]}
    status = {"phase": "Terminating", "conditions": [{"type": "Stuck", "reason": "Why"}]}
    text = told("Namespace", status=status, related=related)
    for words in ("pods      1     3", "Resource Quotas", "Limit Ranges", "Stuck"):
        assert words in text


def test_annotations_are_folded_and_cut() -> None:
    """Long and multi-line annotations begin below their key; the last-applied annotation is left out."""
    report = Report()
    kept = "kubectl.kubernetes.io/last-applied-configuration"
    report.annotations("Annotations", {"a": "x\ny\n", "b": "z" * 200, kept: "{}"})
    assert report.text.splitlines() == ["Annotations:\ta:", "\t  x", "\t  y", "\tb:", f"\t  {'z' * 138}..."]


def test_pod_with_rare_fields_is_described() -> None:
    """Pod-level resources, ephemeral containers, a nominated node, a volume of unknown type."""
    text = told(
        "Pod",
        spec={
            "resources": {"limits": {"cpu": "1"}},
            "containers": [{"name": "a", "ports": [{"containerPort": 80}]}],
            "ephemeralContainers": [{"name": "debug"}],
            "runtimeClassName": "fast",
            "volumes": [{"name": "odd", "strange": {}}, {"name": "host", "hostPath": {"path": "/"}}, PROJECTED],
        },
        status={
            "containerStatuses": [
                {"name": "a", "ready": True, "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}}}
            ],
            "nominatedNodeName": "n2",
            "startTime": "2026-01-02T03:04:05Z",
            "podIPs": [{"ip": "10.0.0.1"}],
        },
    )
    shown = [line.split() for line in text.splitlines()]
    for words in (
        ["Resources:"],
        ["Ephemeral", "Containers:"],
        ["NominatedNodeName:", "n2"],
        ["<unknown>"],
        ["HostPathType:", "<none>"],
        ["Runtime", "Class", "Name:", "fast"],
        ["SecretName:", "s"],
        ["ConfigMapName:", "c"],
        ["Port:", "80/TCP"],
        ["State:", "Running"],
        ["Ready:", "True"],
        ["Start", "Time:", "Fri,", "02", "Jan", "2026", "03:04:05", "+0000"],
    ):
        assert words in shown, words


PROJECTED = {"name": "all", "projected": {"sources": [{"secret": {"name": "s"}}, {"configMap": {"name": "c"}}, {}]}}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "node allocatable (limits.cpu)"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "?"}}, "(limits.cpu)"),
        ({"fileKeyRef": {}}, "<set to the key '' of config map ''>"),
    ],
)
def test_environment_variable_shows_the_source_of_its_value(source: dict[str, Any], text: str) -> None:
    """Also when the source is invalid."""
    container = {"name": "a", "env": [{"name": "X", "valueFrom": source}]}
    assert text in told("Pod", spec={"containers": [container]})


def test_conditions_of_a_node_have_their_times() -> None:
    """A missing time is shown as year 1."""
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "Why"}
    text = told("Node", status={"conditions": [condition], "addresses": [{"type": "Hostname", "address": "n1"}]})
    assert "Mon, 01 Jan 0001 00:00:00 +0000   Fri, 02 Jan 2026 03:04:05 +0000   Why" in text
