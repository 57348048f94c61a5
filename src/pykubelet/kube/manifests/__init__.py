"""Manifests on disk, followed: what files say, or said when they last made sense."""

from pykubelet.kube.manifests.follow import Content, Follower
from pykubelet.kube.manifests.last_known_good import Found
from pykubelet.kube.manifests.problems import ProblemBook, Problems, SourceProblem

__all__ = ["Content", "Follower", "Found", "ProblemBook", "Problems", "SourceProblem"]
