"""Objects of any kind but pods that follow the manifests on disk."""

from pykubelet.controllers.manifests.controller import ManifestController

__all__ = ["ManifestController"]
