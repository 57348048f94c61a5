"""Periods, limits and sizes by name: a test that waits for one or exceeds it may not notice that it is another.

Those of upstream have upstream's values; the others bound what a request or an object may cost.
"""

from datetime import timedelta
from importlib import import_module
from inspect import signature
from typing import Any

import pytest

from pykubelet.aio.backoff import Backoff
from pykubelet.api import schema
from pykubelet.api.schema import Resource
from pykubelet.kinds.registry import KINDS

_MIB = 1024 * 1024
_INT32, _INT64 = 2**31 - 1, 2**63 - 1
_FNV = {"_FNV_OFFSET": 0x811C9DC5, "_FNV_PRIME": 0x01000193}

CONSTANTS: dict[str, dict[str, Any]] = {
    # pkg/controller, in the order of cmd/kube-controller-manager/app/controllermanager.go
    "controllers.framework.work_queue": {
        "WORKERS": 5,
        "RETRY": Backoff(first_seconds=0.005, limit_seconds=1000),
        "UNAVAILABLE_SECONDS": 5,
        "BATCH_THRESHOLD": 20,
        "PAUSE_SECONDS_EACH": 0.0001,
        "_BOUNDS": tuple(pytest.approx(10.0**power) for power in range(-8, 2)),
    },
    "controllers.framework.expectations": {"EXPECTATIONS_TIMEOUT_SECONDS": 300, "_MARGIN_SECONDS": 1},
    "controllers.framework.controller_history": {"DEFAULT_HISTORY_LIMIT": 10, "_MAX_PREFIX": 223, **_FNV},
    "controllers.framework.pod_control": _FNV,
    "controllers.endpoint.endpoints_controller": {"MAX_ADDRESSES": 1000},
    "controllers.endpointslice.endpointslice_controller": {
        "RETRY": Backoff(first_seconds=1, limit_seconds=1000),
        "SETTLE_SECONDS": 1,
    },
    "controllers.endpointslice.reconciler": {"MAX_ENDPOINTS": 100},
    "controllers.podgc.gc_controller": {"TERMINATED_THRESHOLD": 12500, "QUARANTINE_SECONDS": 40, "CHECK_SECONDS": 20},
    "controllers.namespace.namespace_controller": {
        "FINALIZER_SECONDS": 15,
        "LONGEST_SECONDS": 120,
        "_PAGE": 500,
        "SETTLE_SECONDS": 5,
        "POD_SECONDS": 1,
        "RETRY": Backoff(first_seconds=0.5, limit_seconds=60),
    },
    "controllers.garbagecollector.garbagecollector": {
        "DISCOVERY_SECONDS": 30,
        "SETTLE_SECONDS": 1,
        "WORKERS": 20,
        "BATCH": 50,
        "EXAMINE_AGAIN": Backoff(first_seconds=0.1, limit_seconds=1000),
    },
    "controllers.garbagecollector.graph": {"MAX_ABSENT": 500},
    "controllers.daemon.placement": {"BURST_DAEMONS": 250},
    "controllers.daemon.pods": {"FIRST_SECONDS": 1, "LIMIT_SECONDS": 900, "_FORGOTTEN_AFTER_SECONDS": 1800},
    "controllers.job.controller": {"POD_BATCH_SECONDS": 1, "_RETRY": Backoff(first_seconds=1, limit_seconds=60)},
    "controllers.job.pods": {"_MAX_PREFIX": 58, "MAX_PODS_PER_SYNC": 500, "_PARALLELISM": 1},
    "controllers.job.policies": {"POD_FAILURE_BACKOFF": Backoff(first_seconds=10, limit_seconds=600)},
    "controllers.job.status": {"_MAX_COUNT": _INT32, "_BACKOFF_LIMIT": 6},
    "controllers.job.tracking": {"MAX_UNCOUNTED_PODS": 500, "_RETRY": Backoff(first_seconds=1, limit_seconds=60)},
    "controllers.deployment.replica_sets": {"HISTORY_LENGTH": 2000},
    "controllers.replicaset.replica_set": {"BURST_REPLICAS": 500},
    "controllers.statefulset.identity": {"_MAX_ORDINAL": _INT32},
    "controllers.podautoscaler.horizontal": {"SYNC_SECONDS": 15},
    "controllers.podautoscaler.behavior": {
        "STABILIZATION_SECONDS": 300,
        "_SCALE_UP_FACTOR": 2,
        "_SCALE_UP_LEAST": 4,
    },
    "controllers.podautoscaler.replica_calculator": {
        "TOLERANCE": 0.1,
        "CPU_INITIALIZATION_PERIOD": timedelta(minutes=5),
        "INITIAL_READINESS_DELAY": timedelta(seconds=30),
    },
    "controllers.podautoscaler.metrics_client": {
        "_SECONDS": {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9},
    },
    "controllers.disruption.disruption": {"TIMEOUT": timedelta(minutes=2)},
    "controllers.disruption.budget": {"DELETION_TIMEOUT": timedelta(minutes=2)},
    "controllers.cronjob.schedule": {"MANY_MISSED": 100, "_PADDING_SECONDS": 0.1, "_LONGEST_SECONDS": 10**10},
    "controllers.certificates.approver": {"_RETRY": Backoff(first_seconds=0.2, limit_seconds=1000)},
    "controllers.certificates.certificate_controller": {
        "_DECIDED_KEPT": timedelta(hours=1),
        "_PENDING_KEPT": timedelta(hours=24),
    },
    "controllers.certificates.signer": {
        "LIFE": timedelta(days=365),
        "_SHORTEST": timedelta(minutes=10),
        "_BACKDATE": timedelta(minutes=5),
        "_SHORT": timedelta(hours=8),
    },
    "controllers.nodelifecycle.node_health": {"GRACE_SECONDS": 50, "STARTUP_GRACE_SECONDS": 60},
    "controllers.nodelifecycle.node_lifecycle_controller": {
        "NODES_PER_SECOND": 0.1,
        "SLOW_NODES_PER_SECOND": 0.01,
        "LARGE_ZONE": 50,
        "UNHEALTHY_SHARE": 0.55,
        "_MAX_UNSUSPICIOUS": 2,
        "MONITOR_SECONDS": 5,
    },
    "controllers.tainteviction.taint_eviction": {"_EARLY_SECONDS": 0.05},
    "controllers.manifests.controller": {
        "_RANKS": {
            **dict.fromkeys(("Namespace", "CustomResourceDefinition"), 0),
            **dict.fromkeys(("PriorityClass", "RuntimeClass", "StorageClass", "ServiceAccount"), 1),
            **dict.fromkeys(("ClusterRole", "Role", "ConfigMap", "Secret"), 1),
        },
        "_LAST": 2,
        "PATIENT_TRIES": 4,
        "RETRY": Backoff(first_seconds=0.1, limit_seconds=20),
    },
    # pkg/scheduler
    "scheduler.schedule_one": {"_MAX_NOTE": 1024, "BIND_TIMEOUT_SECONDS": 600},
    "scheduler.scheduling_queue": {
        "BACKOFF": Backoff(first_seconds=1, limit_seconds=10),
        "LONGEST_WAIT_SECONDS": 300,
    },
    "scheduler.interpodaffinity": {"MAX_SCORE": 100, "_HARD_AFFINITY_WEIGHT": 1},
    "scheduler.podtopologyspread": {"MAX_SCORE": 100},
    "scheduler.scores": {
        "MAX_SCORE": 100,
        "_SMALL_IMAGE": 23 * _MIB,
        "_LARGE_IMAGE": 1000 * _MIB,
        "WEIGHTS": {
            "taints": 3,
            "node affinity": 2,
            "spread": 2,
            "pod affinity": 2,
            "least allocated": 1,
            "balance": 1,
            "images": 1,
        },
    },
    # pkg/kubelet
    "kubelet.config.config": {"LIMIT": 50, "PATIENCE_SECONDS": 5, "_LONGEST_EVENT": 1024},
    "kubelet.config.http": {
        "PERIOD_SECONDS": 20,
        "TIMEOUT_SECONDS": 10,
        "REDIRECT_LIMIT": 10,
        "LOUD_FAILURES": 3,
        "REDIRECTS": {301, 302, 303, 307, 308},
    },
    "kubelet.eviction.eviction_manager": {"LIMITS_PERIOD_SECONDS": 60, "CLEANUP_SECONDS": 30, "_POLL_SECONDS": 1},
    "kubelet.eviction.pressure_monitor": {
        "TRANSITION_SECONDS": 300,
        "PERIOD_SECONDS": 10,
        "PRESSURE_PERIOD_SECONDS": 2,
    },
    "kubelet.eviction.pod_usage": {"_BLOCK_BYTES": 512},
    "kubelet.eviction.ranking": {
        "_NOTICEABLE_SHARE": 1000,
        "_NOTICEABLE_BYTES": 65536,
        "_NOTICEABLE_INODES": 64,
        "AT_ONCE_SECONDS": 1,
    },
    "kubelet.images.image_gc_manager": {"IMAGE_GC_PERIOD_SECONDS": 300},
    "kubelet.kuberuntime.container": {"_MAX_USER_ID": _INT32},
    "kubelet.kuberuntime.container_gc": {"CONTAINER_GC_PERIOD_SECONDS": 60, "_REMOVERS": 4, "_SHOWN_IN_STATUS": 2},
    "kubelet.kuberuntime.manager": {"FIRST_SECONDS": 10, "LIMIT_SECONDS": 300, "FORGOTTEN_AFTER_SECONDS": 600},
    "kubelet.kuberuntime.pod_actions": {"MINIMUM_GRACE_SECONDS": 2, "_MAX_COUNT": _INT64, **_FNV},
    "kubelet.kuberuntime.termination": {"MAX_FILE_BYTES": 4096, "MAX_LOG_BYTES": 2048, "MAX_LOG_LINES": 80},
    "kubelet.lifecycle.admission": {"PRESSURE_POLL_SECONDS": 0.5},
    "kubelet.lifecycle.handlers": {"_OUTPUT_BYTES": 10 * 1024},
    "kubelet.lifecycle.predicate": {
        "_SAFE": {
            "kernel.shm_rmid_forced": (0, 0),
            "net.ipv4.ip_local_port_range": (0, 0),
            "net.ipv4.tcp_syncookies": (0, 0),
            "net.ipv4.ping_group_range": (0, 0),
            "net.ipv4.ip_unprivileged_port_start": (0, 0),
            "net.ipv4.ip_local_reserved_ports": (3, 16),
            "net.ipv4.tcp_keepalive_time": (4, 5),
            "net.ipv4.tcp_fin_timeout": (4, 6),
            "net.ipv4.tcp_keepalive_intvl": (4, 5),
            "net.ipv4.tcp_keepalive_probes": (4, 5),
            "net.ipv4.tcp_rmem": (4, 15),
            "net.ipv4.tcp_wmem": (4, 15),
        },
        "_MAX_LENGTH": 253,
    },
    "kubelet.nodeshutdown.nodeshutdown_manager": {"LAST_SECONDS": 5, "_POLL_SECONDS": 0.05},
    "kubelet.pod_workers.pod_workers": {"_SOONEST_SECONDS": 0.1, "_SHORTEST_KILL_TIMEOUT_SECONDS": 10},
    "kubelet.pod_workers.state": {"SHORTEST_GRACE_SECONDS": 1},
    "kubelet.prober.results": {"HISTORY_LENGTH": 40},
    "kubelet.status.container_statuses": {"_UNKNOWN_EXIT_CODE": 137, "_MAX_ENTRIES": 1000},
    "kubelet.status.normalize": {"MESSAGE_BYTES_PER_POD": 12 * 1024},
    "kubelet.status.status_manager": {
        "IN_FLIGHT": 16,
        "RECONCILE_SECONDS": 10,
        "BACKOFF": Backoff(first_seconds=0.1, limit_seconds=10, jitter=0.2),
    },
    "kubelet.status.sync": {"RECLAIM_POLL_SECONDS": 1},
    # staging/src/k8s.io/client-go
    "client.event_correlator": {
        "_CACHE_SIZE": 4096,
        "_MAX_SIMILAR": 10,
        "_SIMILAR_NANOSECONDS": 600 * 10**9,
        "SPAM_BURST": 25,
        "_REFILL_PER_SECOND": pytest.approx(1 / 300),
    },
    "client.leaderelection": {"RELEASED_SECONDS": 1, "_JITTER": 1.2, "_RELEASE_TRIES": 3},
    "client.reflector": {
        "PAGE_SIZE": 500,
        "HEALTHY_AFTER_SECONDS": 120,
        "SHORT_WATCH_SECONDS": 1,
        "BACKOFF": Backoff(first_seconds=0.1, limit_seconds=30, factor=2, jitter=1),
    },
    # staging/src/k8s.io/apiserver
    "apiserver.admission.pods": {"_TOLERATION_SECONDS": 300, "_MAX_COMPARED": 300},
    "apiserver.admission.rbac_escalation": {"_MOST_NAMED": 10_000},
    "apiserver.admission.services": {"NODE_PORT_RANGE": range(30000, 32768), "_FIRST_ADDRESS": 2, "_MOST_UNSEEN": 256},
    "apiserver.apiextensions.schema.defaulting": {"MAX_DEFAULTS_BYTES": 3 * _MIB},
    "apiserver.authorization.rbac": {"_REMEMBERED": 1024},
    "apiserver.fieldmanager.fieldmanager": {"_LONGEST_ANNOTATIONS": 256 * 1024},
    "apiserver.fieldmanager.fieldpath": {"_PLAIN_FLOATS": 1e21},
    "apiserver.fieldmanager.managedfields": {"_MOST_UPDATERS": 10, "_LONGEST_MANAGER_BYTES": 128},
    "apiserver.fieldmanager.typed": {"_REMEMBERED_SHAPES": 256},
    "apiserver.handlers.eviction": {"MAX_DISRUPTED_PODS": 2000},
    "apiserver.handlers.options": {"_INT64": range(-_INT64 - 1, _INT64 + 1)},
    "apiserver.storage.watch_cache": {"HELD_CHANGES": 256, "READ_AT_ONCE": 500},
    "apiserver.tables.jsonpath": {"_MAX_STEPS": 100},
    # staging/src/k8s.io/apimachinery
    "api.field_errors": {
        "GO_SPACE": "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
        "\u2028\u2029\u202f\u205f\u3000",
    },
    "api.cron": {"_MAX_DURATION_DIGITS": 20, "_YEARS": 5},
    "api.names": {
        "QUALIFIED_NAME_MAX_LENGTH": 63,
        "LABEL_VALUE_MAX_LENGTH": 63,
        "DNS1123_LABEL_MAX_LENGTH": 63,
        "DNS1123_SUBDOMAIN_MAX_LENGTH": 253,
        "DNS1035_LABEL_MAX_LENGTH": 63,
        "PORT_NAME_MAX_LENGTH": 15,
        "MAX_ID": _INT32,
    },
    "api.patch.json_patch": {"MAX_OPERATIONS": 10_000, "MAX_COPIED_BYTES": 3 * _MIB, "_MAX_INDEX_DIGITS": 20},
    "api.pods": {"SYSTEM_CRITICAL_PRIORITY": 2_000_000_000},
    "api.quantity": {"MAX_INT64": _INT64, "MIN_INT64": -_INT64 - 1, "_MAX_DIGITS": 4000},
    "api.schema": {"_LONGEST_NAME": 64},
    "api.strict": {
        "MAX_FINDINGS": 100,
        "_LONGEST_SHOWN": 40,
        "_INT32": range(-_INT32 - 1, _INT32 + 1),
        "_INT64": range(-_INT64 - 1, _INT64 + 1),
    },
    "api.times": {
        "MAX_DURATION_SECONDS": _INT64 // 10**9,
        "_MINUTE": 60,
        "_HOUR": 3600,
        "_DAY": 86400,
        "_YEAR": 365 * 86400,
        "_NANOSECONDS": 10**9,
    },
    # pkg/apis
    "kinds.columns": {"SHOWN": 3},
    "kinds.config_map": {"MAX_DATA_BYTES": _MIB},
    "kinds.cron_job": {"_SUFFIX_LENGTH": 11},
    "kinds.endpoint_slice": {"_MAX_ADDRESSES": 100, "_MAX_PORTS": 20_000, "_MAX_ENDPOINTS": 1000, "_MAX_HINTS": 8},
    "kinds.event": {"_LONGEST": {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}},
    "kinds.go_values": {
        "_HEADER_LINES": 2,
        "_CONTEXT_LINES": 3,
        "_MAX_COMPARED_LINES": 2000,
        "_LONGEST_WHOLE": 1e21,
    },
    "kinds.horizontal_pod_autoscaler": {"_MAX_PERIOD_SECONDS": 1800, "_MAX_WINDOW_SECONDS": 3600, "_SHOWN": 2},
    "kinds.ingress": {"_SHOWN_HOSTS": 3},
    "kinds.job.strategy": {
        "_NO_BACKOFF_LIMIT": _INT32,
        "_MANY_COMPLETIONS": 100_000,
        "_MUCH_PARALLELISM": 10_000,
    },
    "kinds.job.validation": {
        "_MAX_RULES": 20,
        "_MAX_EXIT_CODES": 255,
        "_MAX_PATTERNS": 20,
        "_MAX_INDEXES_BYTES": 64 * 1024,
        "_MAX_MANAGED_BY_BYTES": 63,
        "_MAX_PARALLELISM": 100_000,
        "_MAX_FAILED_INDEXES": 100_000,
        "_MANY_COMPLETIONS": 100_000,
        "_MAX_PARALLELISM_OF_MANY": 10_000,
        "_MAX_FAILED_INDEXES_OF_MANY": 10_000,
    },
    "kinds.kind": {
        "MAX_WARNING_CHARACTERS": 4096,
        "MAX_LONG_WARNING_CHARACTERS": 256,
        "MAX_RESULTS": 64,
        "MAX_SPEC_BYTES": 16 * 1024,
    },
    "kinds.metadata": {
        "MAX_ANNOTATIONS_BYTES": 256 * 1024,
        "MAX_FIELD_MANAGER_BYTES": 128,
        "MAX_SUBRESOURCE_BYTES": 256,
        "_MAX_LENGTH": 571,
    },
    "kinds.pod.defaults": {
        "_MAX_PATH_LENGTH": 255,
        "_DIGEST_LENGTHS": {"sha256": 64, "sha384": 96, "sha512": 128},
        "_PROBE": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    },
    "kinds.pod.security": {
        "_MAX_SPEC_KIB": 64,
        "_DOMAIN_BYTES": 256,
        "_MAX_USER_BYTES": 104,
        "_MAX_PROFILE_BYTES": 4095,
        "_MAX_SYSCTL_BYTES": 253,
    },
    "kinds.pod.update": {"_MAX_SECONDS": _INT32},
    "kinds.pod.validation": {
        "_MAX_NAMESERVERS": 3,
        "_MAX_SEARCHES": 32,
        "_MAX_SEARCH_BYTES": 2048,
        "_MAX_HOSTNAME_BYTES": 64,
        "_MAX_DEADLINE_SECONDS": _INT32,
    },
    "kinds.pod.volumes": {
        "_MIN_TOKEN_SECONDS": 600,
        "_MAX_TOKEN_SECONDS": 2**32,
        "_MIN_CERTIFICATE_SECONDS": 3600,
        "_MAX_CERTIFICATE_SECONDS": 91 * 86400,
        "_MAX_KUBERNETES_CERTIFICATE_SECONDS": 86400,
        "_MAX_ISCSI_NAME_BYTES": 64,
    },
    "kinds.pod.warnings": {"_MAX_PATH_STEPS": 100_000},
    "kinds.pod_disruption_budget": {"_MAX_REASON_BYTES": 1024, "_MAX_MESSAGE_BYTES": 32 * 1024},
    "kinds.priority_class": {
        "HIGHEST_USER_PRIORITY": 10**9,
        "SYSTEM_CLASSES": {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000},
    },
    "kinds.service.validation": {"_MAX_AFFINITY_SECONDS": 86400},
    "kinds.storage_class": {"_MAX_PARAMETERS": 512, "_MAX_REPEATS": 16, "_MAX_PARAMETERS_BYTES": 256 * 1024},
}

DEFAULTS: dict[str, dict[str, Any]] = {
    "aio.backoff.Backoff": {"factor": 2, "jitter": 0},
    "apiserver.handlers.options.ListOptions": {
        "limit": 0,
        "watch": False,
        "allow_bookmarks": False,
        "timeout_seconds": 0,
    },
    "apiserver.handlers.options.WriteOptions": {"dry_run": False, "force": False},
    "client.leaderelection.LeaderElectionConfig": {"lease_seconds": 15, "renew_seconds": 10, "retry_seconds": 2},
    "kinds.pod.features.PodValidationOptions": dict.fromkeys(
        (
            *("resource_is_pod", "relaxed_env_names", "relaxed_dns_searches", "zero_sleep"),
            *("only_recursive_selinux_change", "pod_level_resources", "sidecar_resize_policy", "merged_spread_keys"),
        ),
        False,
    ),
    "kubelet.images.image_gc_manager.ImageGcPolicy": {
        "high_percent": 85,
        "low_percent": 80,
        "min_age_seconds": 120,
        "max_age_seconds": 0,
    },
    "kubelet.kuberuntime.container_gc.GcPolicy": {"min_age_seconds": 0, "max_per_container": 1, "max_containers": -1},
    "kubelet.pleg.pleg.RelistPolicy": {
        "relist_seconds": 1,
        "relist_with_feed_seconds": 60,
        "retry_seconds": 1,
        "unhealthy_after_seconds": 180,
        "inspect_timeout_seconds": 120,
        "parallel_inspections": 16,
    },
    "kubelet.pod_workers.sync.WorkerDelays": {
        "resync": Backoff(first_seconds=60, limit_seconds=60, jitter=0.5),
        "failed": Backoff(first_seconds=10, limit_seconds=10, jitter=0.5),
        "transient": Backoff(first_seconds=1, limit_seconds=1, jitter=0.5),
    },
}


@pytest.mark.parametrize("module", CONSTANTS)
def test_constants_have_their_values(module: str) -> None:
    loaded = import_module(f"pykubelet.{module}")
    assert {name: getattr(loaded, name) for name in CONSTANTS[module]} == CONSTANTS[module]


@pytest.mark.parametrize("name", DEFAULTS)
def test_settings_have_their_defaults(name: str) -> None:
    module, _, kind = name.rpartition(".")
    stated = signature(getattr(import_module(f"pykubelet.{module}"), kind)).parameters
    assert {field: stated[field].default for field in DEFAULTS[name]} == DEFAULTS[name]


def test_resources_that_clients_name_are_those_that_kinds_have() -> None:
    """The metrics of nodes and pods are served without a kind; their names are in the recorded discovery."""
    kinds = {(kind.resource.group, kind.resource.plural): kind.resource for kind in KINDS}
    stated = [one for one in vars(schema).values() if isinstance(one, Resource) and not one.subresource]
    known = [one for one in stated if (one.group, one.plural) in kinds]
    assert len(known) > 20
    assert [one.namespaced for one in known] == [kinds[one.group, one.plural].namespaced for one in known]
    assert [one.kind for one in known] == [kinds[one.group, one.plural].kind for one in known]
    scopes = {one.plural: one.namespaced for one in stated if one.group == "metrics.k8s.io"}
    assert scopes == {"nodes": False, "pods": True}
