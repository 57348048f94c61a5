"""Who a static pod is: its UID, from what the user wrote and where.

The UID is a digest of the document as written, of the node and of the place it was read from. Formatting, comments,
the order of keys and the version of this agent do not count; every field does. Upstream takes the decoded object, so
that a new version with a new default field restarts every static pod: pkg/kubelet/config/common.go.
"""

import hashlib
import json
from dataclasses import dataclass

from pykubelet.agent.flow import Source
from pykubelet.api.wire import Document, without_nulls

# Part of every digest: another way to compute it needs another name, or pods would change their UID unnoticed.
_ALGORITHM = "static-pod-1"
_UID_DIGITS = 32  # as long as upstream's


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a manifest comes from: a file with its absolute path, or a URL."""

    kind: Source
    location: str


def file_origin(path: str) -> Origin:
    """The origin of a manifest file; the path is absolute."""
    return Origin(Source.FILE, path)


def url_origin(url: str) -> Origin:
    """The origin of a manifest that a web server has."""
    return Origin(Source.HTTP, url)


def static_pod_uid(document: Document, *, origin: Origin, node_name: str) -> str:
    """The UID of a pod that names none: 32 lower-case hexadecimal digits."""
    parts = [_ALGORITHM, without_nulls(document), node_name, origin.kind.value, origin.location]
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_UID_DIGITS]
