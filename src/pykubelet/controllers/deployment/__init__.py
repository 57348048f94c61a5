"""Deployments: the versions of a workload, and how one takes over from another."""

from pykubelet.controllers.deployment.controller import DeploymentController

__all__ = ["DeploymentController"]
