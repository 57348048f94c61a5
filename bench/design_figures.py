"""The headline figures of the project: where to find each in the results, its target, and the Go programs' value. Pure.

The Go values are from one machine (2 cores, 24 GB, containerd 1.6, 2026-11-15): kubelet 1.34.11, kube-apiserver 1.34.11
with etcd 3.4, and for simulated containers the kubelet's own code on kubemark's runtime.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Results = Mapping[str, Any]
"""What each bench printed, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number in the results of one bench."""

    what: str
    bench: str
    path: str
    """Names with dots between them."""
    unit: str
    target: float
    is_more_better: bool = False
    go: float
    """What the Go program takes."""


_CRI, _FEW, _MANY, _API = "containerd", "simulated_500", "simulated_2000", ""


def _of(bench: str, part: str, unit: str, *rows: tuple[str, str, float, float]) -> tuple[Figure, ...]:
    at = f"{part}." if part else ""
    return tuple(
        Figure(what=what, bench=bench, path=at + path, unit=unit, target=target, go=go)
        for what, path, target, go in rows
    )


def _rates(*rows: tuple[str, str, float, float]) -> tuple[Figure, ...]:
    return tuple(
        Figure(what=what, bench="api", path=path, unit="/s", target=target, is_more_better=True, go=go)
        for what, path, target, go in rows
    )


FIGURES = (
    *_of(
        *("cri", _CRI, "s"),
        ("manifest written -> mirror Ready, p50", "static_ready_s.p50", 0.25, 0.3391),
        ("manifest written -> mirror Ready, max", "static_ready_s.max", 0.5, 1.1223),
        ("manifest edited -> new version Ready, p50", "static_edited_s.p50", 0.6, 15.76),
        ("manifest removed -> mirror gone, p50", "static_removed_s.p50", 0.5, 3.3713),
        ("30 pods at once -> all Ready", "at_once.ready_s.p50", 3.3, 5.0702),
        ("30 pods deleted -> all gone", "at_once.gone_s.p50", 3.5, 5.0352),
        ("container exits -> Succeeded, p50", "exit_seen_s.p50", 0.10, 1.5342),
        ("container crashes -> running again, p50", "restart_seen_s.p50", 0.35, 1.4476),
        ("config map changed -> seen in the container, max", "config_map_in_container_s.max", 0.5, 71.852),
    ),
    *_of("cri", _CRI, "% CPU", ("idle with 30 pods", "idle.cpu_pct", 0.3, 2.1)),
    *_of("cri", _CRI, "MB", ("memory with 30 pods", "idle.rss_mb", 80, 94.7)),
    *_of("node", _FEW, "s", ("500 simulated pods at once -> all Ready", "ready_s.max", 5, 22.4)),
    *_of("node", _FEW, "ms CPU", ("each of 500 simulated pods", "cpu_ms_per_pod", 5, 26.5)),
    *_of("node", _MANY, "s", ("2,000 simulated pods at once -> all Ready", "ready_s.max", 20, 120.0)),
    *_of("node", _MANY, "ms CPU", ("each of 2,000 simulated pods", "cpu_ms_per_pod", 5, 41.95)),
    *_of("node", _MANY, "% CPU", ("idle with 2,000 simulated pods", "idle.cpu_pct", 2, 84.4)),
    *_of("node", _MANY, "MB", ("memory with 2,000 simulated pods", "idle.rss_mb", 150, 303)),
    # Upstream was observed to take 2 to 5 s to start.
    *_of("api", _API, "s", ("API server: start to ready", "start_to_ready_s", 0.5, 2.0)),
    *_of(
        *("api", _API, "MB"),
        ("API server: memory, empty", "rss_empty_mb", 60, 308),
        ("API server: memory after 2,000 pods", "rss_after_mb", 150, 744),
    ),
    *_rates(
        ("API server: create, 16 at once", "create.rps", 1500, 440),
        ("API server: get, 16 at once", "get.rps", 3000, 826),
        ("API server: status patch, 20 watchers", "patch_status_with_watchers.rps", 800, 216),
    ),
    *_of(
        *("api", _API, "ms"),
        ("API server: create, p99", "create.p99_ms", 40, 104.4),
        ("API server: watch lag, p50", "watch_lag_ms.p50", 5, 9.7),
    ),
    *_of(
        *("api", _API, "ms CPU"),
        ("API server: each create", "create.cpu_ms_per_op", 0.7, 2.89),
        ("API server: each get", "get.cpu_ms_per_op", 0.3, 0.94),
        ("API server: each status patch", "patch_status_with_watchers.cpu_ms_per_op", 1.5, 5.8),
    ),
    *_of("api", _API, "s", ("API server: list of 2,000 pods", "list_s", 0.1, 0.267)),
    *_of("api", _API, "events", ("API server: watch events missed", "watch_events_missed", 0, 0)),
)


def judged(results: Results) -> list[dict[str, Any]]:
    """Every figure with its target and whether it is met; None if it was not measured."""
    return [_judged(figure, results) for figure in FIGURES]


def _judged(figure: Figure, results: Results) -> dict[str, Any]:
    found: Any = results.get(figure.bench)
    for name in figure.path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    is_met = None
    if found is not None:
        is_met = found >= figure.target if figure.is_more_better else found <= figure.target
    return {
        "what": figure.what,
        "unit": figure.unit,
        "measured": found,
        "target": figure.target,
        "is_more_better": figure.is_more_better,
        "is_met": is_met,
        "go": figure.go,
        "bench": figure.bench,
        "path": figure.path,
    }


HEADLINES = (
    "manifest written -> mirror Ready, p50",
    "manifest edited -> new version Ready, p50",
    "30 pods at once -> all Ready",
    "container exits -> Succeeded, p50",
    "container crashes -> running again, p50",
    "config map changed -> seen in the container, max",
    "idle with 30 pods",
    "memory with 30 pods",
    "2,000 simulated pods at once -> all Ready",
    "each of 2,000 simulated pods",
    "idle with 2,000 simulated pods",
    "memory with 2,000 simulated pods",
    "API server: start to ready",
    "API server: memory, empty",
    "API server: memory after 2,000 pods",
    "API server: create, 16 at once",
    "API server: get, 16 at once",
    "API server: status patch, 20 watchers",
)
"""What is shown to people who want to know in a minute."""


def table(figures: Iterable[Mapping[str, Any]]) -> str:
    """The headline figures beside those of the Go programs, as Markdown; unmeasured ones are left out."""
    found = {figure["what"]: figure for figure in figures if figure["measured"] is not None}
    rows = [_row(found[what]) for what in HEADLINES if what in found]
    return "\n".join(["| what | Go | here | target |", "|---|---|---|---|", *rows]) + "\n"


def _row(figure: Mapping[str, Any]) -> str:
    unit = f" {figure['unit']}" if figure["unit"][0].isalnum() else figure["unit"]
    go, here = (f"{_short(figure[name])}{unit}" for name in ("go", "measured"))
    sign = "≥" if figure["is_more_better"] else "≤"
    missed = "" if figure["is_met"] else ", missed"
    return f"| {figure['what'].replace('->', '→')} | {go} | {here} | {sign} {_short(figure['target'])}{missed} |"


def _short(number: float) -> str:
    """Format a number with three digits, or with all digits from 100 on."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
