"""Ends namespaces for an API server that leaves this to others."""

from pykubelet.controllers.namespaces.controller import NamespaceController

__all__ = ["NamespaceController"]
