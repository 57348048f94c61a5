"""SPDY/3.1 connections for exec, attach and port-forward."""
