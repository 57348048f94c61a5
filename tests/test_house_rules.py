"""Rules of shape, checked by machine: sizes, names, docstrings, doors, purity, cycles."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/pykubelet"

FILES = sorted(path for path in SOURCE.rglob("*.py") if "generated" not in path.parts)
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
BANNED_NAMES = {"utils", "util", "helpers", "common", "misc", "base", "core", "impl", "stuff"}

# Modules that decide: values in, values out.
PURE = {
    "agent/api_situation.py",
    "agent/explanation.py",
    "agent/heartbeat/changes.py",
    "agent/heartbeat/conditions.py",
    "agent/heartbeat/node_status.py",
    "agent/heartbeat/reconcile.py",
    "agent/heartbeat/resources.py",
    "agent/housekeeping_plan.py",
    "agent/pods/admission.py",
    "agent/pods/mirror_plan.py",
    "agent/pods/occupancy.py",
    "agent/pods/preemption.py",
    "agent/pods/sysctls.py",
    "agent/pressure/eviction_plan.py",
    "agent/pressure/judgement.py",
    "agent/pressure/local_limits.py",
    "agent/pressure/pod_use.py",
    "agent/pressure/ranking.py",
    "agent/pressure/thresholds.py",
    "agent/probes/finding.py",
    "agent/probes/grpc_health.py",
    "agent/probes/hpack.py",
    "agent/probes/http2_call.py",
    "agent/probes/history.py",
    "agent/probes/http_answer.py",
    "agent/probes/readiness.py",
    "agent/probes/results.py",
    "agent/probes/schedule.py",
    "agent/refs/references.py",
    "agent/shutdown_plan.py",
    "agent/sources/compare.py",
    "agent/sources/decode.py",
    "agent/sources/identity.py",
    "agent/sources/merge.py",
    "agent/sources/notify.py",
    "agent/start_durations.py",
    "agent/status/addresses.py",
    "agent/status/condition_list.py",
    "agent/status/conditions.py",
    "agent/status/container_statuses.py",
    "agent/status/deadline.py",
    "agent/status/equality.py",
    "agent/status/generate.py",
    "agent/status/merge.py",
    "agent/status/normalize.py",
    "agent/status/patch.py",
    "agent/status/phase.py",
    "agent/status/reason_cache.py",
    "agent/status/resource_statuses.py",
    "agent/status/terminate.py",
    "agent/status/transitions.py",
    "agent/status/urgency.py",
    "agent/volumes/env.py",
    "agent/volumes/expansion.py",
    "agent/volumes/field_ref.py",
    "agent/volumes/hosts.py",
    "agent/volumes/interest.py",
    "agent/volumes/lookups.py",
    "agent/volumes/mount_plan.py",
    "agent/volumes/payload_paths.py",
    "agent/volumes/payloads.py",
    "agent/volumes/plan.py",
    "agent/volumes/pod_dirs.py",
    "agent/volumes/problems.py",
    "agent/volumes/resource_ref.py",
    "agent/volumes/service_env.py",
    "agent/volumes/termination_message.py",
    "agent/volumes/token_refresh.py",
    "agent/waiting_containers.py",
    "agent/waiting_ends.py",
    "agent/waiting_for.py",
    "agent/workers/machine.py",
    "agent/workers/observed.py",
    "agent/workers/queries.py",
    "agent/workers/record.py",
    "agent/workers/turns.py",
    "aio/backoff.py",
    "aio/histogram.py",
    "apiserver/admission/__init__.py",
    "apiserver/admission/node_labels.py",
    "apiserver/admission/node_writes.py",
    "apiserver/auth/access_questions.py",
    "apiserver/auth/bindings.py",
    "apiserver/auth/bootstrap_tokens.py",
    "apiserver/auth/claims.py",
    "apiserver/auth/coverage.py",
    "apiserver/auth/default_roles.py",
    "apiserver/auth/identity.py",
    "apiserver/auth/node_graph.py",
    "apiserver/auth/reconcile.py",
    "apiserver/auth/refusal.py",
    "apiserver/auth/rules.py",
    "apiserver/auth/token_file.py",
    "apiserver/failures.py",
    "apiserver/go_print.py",
    "apiserver/http/discovery.py",
    "apiserver/http/health.py",
    "apiserver/http/impersonate.py",
    "apiserver/http/limits.py",
    "apiserver/http/negotiate.py",
    "apiserver/http/reply.py",
    "apiserver/http/targets.py",
    "apiserver/http/views.py",
    "apiserver/http/warning_headers.py",
    "apiserver/http/watch_lines.py",
    "apiserver/namespaces/deletion.py",
    "apiserver/objects/deletion.py",
    "apiserver/objects/event_forms.py",
    "apiserver/objects/object_metadata.py",
    "apiserver/objects/stored_forms.py",
    "apiserver/objects/watch_events.py",
    "apiserver/openapi/documents.py",
    "apiserver/openapi/paths.py",
    "apiserver/openapi/protobuf_form.py",
    "apiserver/proxy/heads.py",
    "apiserver/proxy/node_answers.py",
    "apiserver/proxy/proxy_targets.py",
    "apiserver/requests/bodies.py",
    "apiserver/requests/continue_token.py",
    "apiserver/requests/decode_words.py",
    "apiserver/requests/json_syntax.py",
    "apiserver/requests/patches.py",
    "apiserver/requests/protobuf.py",
    "apiserver/requests/query.py",
    "apiserver/requests/revisions.py",
    "apiserver/requests/routes.py",
    "apiserver/requests/selection.py",
    "apiserver/requests/time_words.py",
    "apiserver/storage/expiry.py",
    "apiserver/storage/history.py",
    "apiserver/storage/restore.py",
    "apiserver/storage/revise.py",
    "apiserver/storage/rows.py",
    "apiserver/storage/state.py",
    "apiserver/subresources/bindings.py",
    "apiserver/subresources/evictions.py",
    "apiserver/subresources/parts.py",
    "apiserver/subresources/scale.py",
    "app/cis/facts.py",
    "app/cis/rules.py",
    "cli/apply_words.py",
    "cli/failure_words.py",
    "cli/live_table.py",
    "cli/object_forms.py",
    "cli/table_layout.py",
    "controllers/binder/cluster_view.py",
    "controllers/binder/decision.py",
    "controllers/binder/filters.py",
    "controllers/binder/pod_affinity.py",
    "controllers/binder/pod_facts.py",
    "controllers/binder/scores.py",
    "controllers/binder/spread.py",
    "controllers/certificates/plan.py",
    "controllers/cron_due.py",
    "controllers/cron_plan.py",
    "controllers/daemon_backoff.py",
    "controllers/daemon_plan.py",
    "controllers/daemon_rollout.py",
    "controllers/deployment/conditions.py",
    "controllers/deployment/limits.py",
    "controllers/deployment/revisions.py",
    "controllers/deployment/scaling.py",
    "controllers/deployment/sets.py",
    "controllers/deployment/status.py",
    "controllers/disruption/budget.py",
    "controllers/disruption/stale.py",
    "controllers/endpoints/pod_facts.py",
    "controllers/endpoints/slice_form.py",
    "controllers/endpoints/slice_plan.py",
    "controllers/endpoints/slice_tracker.py",
    "controllers/endpoints/subsets.py",
    "controllers/endpoints/trigger_times.py",
    "controllers/expectations.py",
    "controllers/garbage/graph.py",
    "controllers/garbage/identity.py",
    "controllers/garbage/patches.py",
    "controllers/garbage/verdict.py",
    "controllers/int_or_percent.py",
    "controllers/job_backoff.py",
    "controllers/job_census.py",
    "controllers/job_conditions.py",
    "controllers/job_facts.py",
    "controllers/job_failure_policy.py",
    "controllers/job_index_pods.py",
    "controllers/job_index_state.py",
    "controllers/job_indexes.py",
    "controllers/job_outcome.py",
    "controllers/job_plan.py",
    "controllers/job_success_policy.py",
    "controllers/job_tracking.py",
    "controllers/job_ttl.py",
    "controllers/label_index.py",
    "controllers/manifests/marks.py",
    "controllers/manifests/plan.py",
    "controllers/manifests/refusals.py",
    "controllers/manifests/wishes.py",
    "controllers/namespaces/plan.py",
    "controllers/nodes/disruption.py",
    "controllers/nodes/health.py",
    "controllers/nodes/node_taints.py",
    "controllers/nodes/pod_gc_plan.py",
    "controllers/nodes/toleration.py",
    "controllers/pod_order.py",
    "controllers/pod_status_patch.py",
    "controllers/queue_times.py",
    "controllers/replica_plan.py",
    "controllers/revision_plan.py",
    "controllers/root_ca_map.py",
    "controllers/statefulset/claims.py",
    "controllers/statefulset/identity.py",
    "controllers/statefulset/plan.py",
    "controllers/statefulset/status.py",
    "controllers/template_hash.py",
    "kube/certificates/outcome.py",
    "kube/certificates/rotation.py",
    "kube/certificates/wish.py",
    "kube/command_channels.py",
    "kube/command_plans.py",
    "kube/deltas.py",
    "kube/discovery.py",
    "kube/event_correlation.py",
    "kube/exec_info.py",
    "kube/leader_plan.py",
    "kube/manifests/claims.py",
    "kube/manifests/documents.py",
    "kube/manifests/last_known_good.py",
    "kube/manifests/settling.py",
    "kube/pod_choice.py",
    "kube/port_words.py",
    "kube/request_plan.py",
    "kube/resource_names.py",
    "kube/watch_stream.py",
    "nodeapi/access/attributes.py",
    "nodeapi/access/callers.py",
    "nodeapi/access/remembered.py",
    "nodeapi/health.py",
    "nodeapi/log_choice.py",
    "nodeapi/log_options.py",
    "nodeapi/pod_lists.py",
    "nodeapi/reachability.py",
    "nodeapi/replies.py",
    "nodeapi/routes.py",
    "nodeapi/stats/cpu_rates.py",
    "nodeapi/stats/families.py",
    "nodeapi/stats/readings.py",
    "nodeapi/stats/summary.py",
    "nodeapi/streaming/channels.py",
    "nodeapi/streaming/endings.py",
    "nodeapi/streaming/negotiate.py",
    "nodeapi/streaming/options.py",
    "nodeapi/streaming/sizes.py",
    "nodeapi/targets.py",
    "runtime/actions.py",
    "runtime/container_hash.py",
    "runtime/crash_backoff.py",
    "runtime/cri/cgroup_names.py",
    "runtime/cri/container_config.py",
    "runtime/cri/containerd_events.py",
    "runtime/cri/dns.py",
    "runtime/cri/facts.py",
    "runtime/cri/labels.py",
    "runtime/cri/pod_limits.py",
    "runtime/cri/readings.py",
    "runtime/cri/resources.py",
    "runtime/cri/sandbox_config.py",
    "runtime/cri/security.py",
    "runtime/cri/statuses.py",
    "runtime/cri/upgrade.py",
    "runtime/events.py",
    "runtime/gc_plan.py",
    "runtime/http_get.py",
    "runtime/image_gc_plan.py",
    "runtime/image_plan.py",
    "runtime/image_sizes.py",
    "runtime/init_plan.py",
    "runtime/keyed_backoff.py",
    "runtime/keyring.py",
    "runtime/kill_order.py",
    "runtime/log_paths.py",
    "runtime/log_rotation.py",
    "runtime/log_write.py",
    "runtime/loglines.py",
    "runtime/non_root.py",
    "runtime/oom_score.py",
    "runtime/plan.py",
    "runtime/process/capabilities.py",
    "runtime/process/cgroup_plan.py",
    "runtime/process/listeners.py",
    "runtime/process/records.py",
    "runtime/process/request.py",
    "runtime/process/shim/view.py",
    "runtime/process/usage_sums.py",
    "runtime/process/users.py",
    "runtime/prune_init.py",
    "runtime/relist.py",
    "runtime/restarts.py",
    "runtime/results.py",
    "runtime/sandbox_need.py",
    "runtime/sim/behaviour.py",
    "runtime/spdy_frames.py",
    "runtime/spdy_headers.py",
    "web/containers.py",
    "web/guard.py",
    "web/manifest_problems.py",
    "web/messages.py",
    "web/newest.py",
    "web/object_rows.py",
    "web/pod_row.py",
    "web/routes.py",
    "web/sessions.py",
    "web/shown_object.py",
    "web/table.py",
    "web/tally.py",
    "web/timeline.py",
    "web/usage_history.py",
}
# Whole folders of them.
PURE_FOLDERS = (
    "api/",
    "apiserver/fields/",
    "apiserver/strategies/",
    "apiserver/tables/",
    "apiserver/custom/",
    "cli/describe/",
)
# The one file there that acts on what the others decide.
STATIONS = {"apiserver/custom/controller.py"}
IMPURE_MODULES = {"asyncio", "logging", "time", "socket", "subprocess", "threading", "os", "pathlib"}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def classes(path: Path) -> Iterator[ast.ClassDef]:
    return (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))


def length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_module(name: str) -> bool:
    path = ROOT / "src" / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def asserting(path: Path) -> set[str]:
    """The functions of a test file that assert something, themselves or through another one of the file."""
    bodies = {function.name: ast.unparse(function) for function in functions(path)}
    found = {name for name, body in bodies.items() if re.search(r"\bassert|raises\(|wait_for\(", body)}
    for _ in bodies:
        found |= {name for name, body in bodies.items() if any(f"{known}(" in body for known in found)}
    return found


def imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            # Importing a module from its package is not importing what the package's __init__ offers.
            found |= names if all(is_module(name) for name in names) else {node.module, *names}
    return found


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_module_is_small_named_and_says_its_job(path: Path) -> None:
    """At most 400 lines, no vague name, a docstring whose first line fits on one line."""
    text = path.read_text()
    assert text.count("\n") <= 400
    assert not BANNED_NAMES & set(path.relative_to(SOURCE).with_suffix("").parts)
    docstring = ast.get_docstring(tree_of(path)) or ""
    first = docstring.partition("\n")[0]
    assert first.endswith((".", ":")), "the docstring's first line states the module's job"
    assert len(first) <= 100
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_functions_and_classes_are_small(path: Path) -> None:
    """Functions up to 50 lines, classes up to 250, Protocols up to 7 methods, constructors up to 6 collaborators."""
    assert [f.name for f in functions(path) if length(f) > 50] == []
    for found in classes(path):
        methods = [node for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert length(found) <= 250, found.name
        if any("Protocol" in ast.unparse(parent) for parent in found.bases):
            assert len(methods) <= 7, found.name
        for method in methods:
            if method.name == "__init__":
                assert len(method.args.args) + len(method.args.kwonlyargs) - 1 <= 8, found.name


@pytest.mark.parametrize("path", TEST_FILES, ids=name_of)
def test_test_functions_are_readable(path: Path) -> None:
    """A test up to 60 lines; every test asserts something or expects an error."""
    assert [function.name for function in functions(path) if length(function) > 60] == []
    tests = {function.name for function in functions(path) if function.name.startswith("test_")}
    assert tests - asserting(path) == set(), "asserts nothing"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_loose_tasks_and_no_deep_copies(path: Path) -> None:
    """Tasks belong to a group or a supervisor; frozen values are shared, not copied."""
    text = path.read_text()
    assert "copy.deepcopy" not in text
    if path.parent.name != "aio":
        assert "asyncio.create_task" not in text
        assert "ensure_future" not in text


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_decisions_are_pure(path: Path) -> None:
    """No clock, no I/O, no tasks and no logs where things are decided."""
    relative = str(path.relative_to(SOURCE))
    if relative in STATIONS or (relative not in PURE and not relative.startswith(PURE_FOLDERS)):
        return
    roots = {name.split(".")[0] for name in imported(path)}
    assert roots & IMPURE_MODULES == set()
    assert not any(isinstance(node, ast.AsyncFunctionDef | ast.Await) for node in ast.walk(tree_of(path)))
    assert not {name for name in imported(path) if name.startswith("pykubelet.aio.log")}


def test_every_pure_module_exists() -> None:
    """The list above names real files."""
    assert sorted(name for name in PURE if not (SOURCE / name).exists()) == []


@pytest.mark.parametrize(
    ("folder", "kind", "listed"), [("agent", "independence", "modules"), ("runtime", "protected", "protected_modules")]
)
def test_contract_on_strangers_names_every_folder(folder: str, kind: str, listed: str) -> None:
    """A new station or runtime is a stranger to the others from its first day."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = [row for row in settings["tool"]["importlinter"]["contracts"] if row["type"] == kind]
    folders = {path.parent.name for path in (SOURCE / folder).glob("*/__init__.py")}
    assert [set(contract[listed]) for contract in contracts] == [{f"pykubelet.{folder}.{name}" for name in folders}]


def test_subprocesses_have_their_doors() -> None:
    """Only the exec credential plugin and the process runtime start processes, and only supervisors fork."""
    users = [
        name_of(path) for path in FILES if "create_subprocess" in path.read_text() or "subprocess" in imported(path)
    ]
    assert users == ["src/pykubelet/kube/exec_credential.py", "src/pykubelet/runtime/process/launcher.py"]
    forks = [path for path in FILES if re.search(r"\bos\.(fork|exec|posix_spawn|system|popen)", path.read_text())]
    assert {path.parent for path in forks} == {SOURCE / "runtime/process/shim"}


@pytest.mark.parametrize("path", [path for path in FILES if "msgspec" in imported(path)], ids=name_of)
def test_types_are_learned_before_they_are_decoded(path: Path) -> None:
    """msgspec crashes if two threads teach it one type at a time, so each goes through `aio.learned`."""
    calls = [ast.unparse(node) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    typed = [call for call in calls if re.match(r"msgspec\.(convert|\w+\.decode)\(.*", call) and "," in call]
    assert [call for call in typed if "learned(" not in call] == []


def test_modules_import_each_other_without_cycles() -> None:
    """The import graph of the package has no cycle."""
    modules = {".".join(("pykubelet", *p.relative_to(SOURCE).with_suffix("").parts)): p for p in FILES}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    graph = {name: {m for m in imported(path) if m in modules and m != name} for name, path in modules.items()}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name not in done:
            for other in sorted(graph[name]):
                visit(other, (*trail, name))
            done.add(name)

    for name in graph:
        visit(name, ())
