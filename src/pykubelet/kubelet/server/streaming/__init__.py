"""Connections that go on after the request: exec, attach and port-forward, over WebSocket and SPDY."""
