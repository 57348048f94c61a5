"""StatefulSets: pods that have a number, a name that stays, and volumes of their own."""

from pykubelet.controllers.statefulset.controller import StatefulSetController, StatefulView, stateful_view

__all__ = ["StatefulSetController", "StatefulView", "stateful_view"]
