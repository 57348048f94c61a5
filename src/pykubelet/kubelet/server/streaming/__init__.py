"""Streaming sessions: exec, attach and port-forward over WebSocket and SPDY."""
