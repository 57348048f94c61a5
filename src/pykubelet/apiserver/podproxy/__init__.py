"""Proxies requests to nodes and pods: logs, exec, attach, port-forward, proxy."""
