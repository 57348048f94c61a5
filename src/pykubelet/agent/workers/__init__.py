"""One worker per pod: the sole authority on what runs on this node."""

from pykubelet.agent.workers.collaborators import (
    Cgroups,
    Containers,
    LastWords,
    Mirrors,
    Network,
    Probes,
    PullSecrets,
    Reasons,
    References,
    StatusReports,
    Storage,
    Surroundings,
)
from pykubelet.agent.workers.durations import SyncDurations
from pykubelet.agent.workers.kill_now import EXCEEDED_GRACE_PERIOD, KillTimedOut, PodKiller
from pykubelet.agent.workers.machine import Decision, Job, Machine
from pykubelet.agent.workers.pool import DesiredPods, SeenPods, WorkerListener, WorkerPool
from pykubelet.agent.workers.queries import WorkerQueries
from pykubelet.agent.workers.sync import PodSyncs
from pykubelet.agent.workers.worker import Delays, JobRunner, Looks, Moments, Synced, SyncFailed, Syncs

__all__ = [
    "EXCEEDED_GRACE_PERIOD",
    "Cgroups",
    "Containers",
    "Decision",
    "Delays",
    "DesiredPods",
    "Job",
    "JobRunner",
    "KillTimedOut",
    "LastWords",
    "Looks",
    "Machine",
    "Mirrors",
    "Moments",
    "Network",
    "PodKiller",
    "PodSyncs",
    "Probes",
    "PullSecrets",
    "Reasons",
    "References",
    "SeenPods",
    "StatusReports",
    "Storage",
    "Surroundings",
    "SyncDurations",
    "SyncFailed",
    "Synced",
    "Syncs",
    "WorkerListener",
    "WorkerPool",
    "WorkerQueries",
]
