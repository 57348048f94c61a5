"""How a store keeps its data: what it remembers, for how long, and what it seals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The defaults suit one machine; collections are named as in a `Key`."""

    without_history: frozenset[str] = frozenset({"events", "leases.coordination.k8s.io"})
    """Only their newest state goes to disk: they change all the time, and nobody resumes their watches for long."""

    lifetimes: Mapping[str, float] = field(default_factory=lambda: {"events": 3600.0})
    """Seconds after its last write that an object of a collection is removed; kube-apiserver's --event-ttl is 1 h."""

    history_seconds: float = 300.0
    """kube-apiserver has etcd forget what is older than this (--etcd-compaction-interval)."""
    history_changes: int = 10_000
    history_bytes: int = 32 * MEBIBYTE
    """Bounds on memory: whichever of the three is reached first makes the oldest changes forgotten."""

    max_bytes: int = 0
    """The file's largest size; 0: as large as the disk allows."""

    key_file: Path | None = None
    """The keys that seal values at rest, made if there is no such file; None: nothing is sealed."""
    sealed: frozenset[str] = frozenset({"secrets"})
