"""Containers as plain processes of the machine: supervision, not a sandbox.

For machines without containerd, with root or without. What a pod calls an image is only a name here: its command is a
command of the machine. Each container has a supervisor (`shim`) that outlives the agent; `runtime` is the agent's side.
"""
