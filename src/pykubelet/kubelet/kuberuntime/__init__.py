"""Brings the containers of pods to the state of their spec through a runtime."""
