"""SPDY/3.1, as exec, attach and port-forward use it."""
