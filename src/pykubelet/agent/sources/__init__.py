"""Where pods come from: files, a URL, an API server; merged into one stream."""

from pykubelet.agent.sources.apiserver import ApiServerSource
from pykubelet.agent.sources.file import FileSource
from pykubelet.agent.sources.merge import Merged, merge_update, stored_after
from pykubelet.agent.sources.mirrors_first import MirrorsFirst
from pykubelet.agent.sources.notify import NotificationMode, notifications
from pykubelet.agent.sources.pod_config import Channel, PodConfig
from pykubelet.agent.sources.reported import ReportedProblems
from pykubelet.agent.sources.sources_ready import SourcesReady
from pykubelet.agent.sources.url import UrlSource
from pykubelet.kube.manifests.problems import Problems, SourceProblem

__all__ = [
    "ApiServerSource",
    "Channel",
    "FileSource",
    "Merged",
    "MirrorsFirst",
    "NotificationMode",
    "PodConfig",
    "Problems",
    "ReportedProblems",
    "SourceProblem",
    "SourcesReady",
    "UrlSource",
    "merge_update",
    "notifications",
    "stored_after",
]
