"""Containers as plain processes of the machine: supervision, not a sandbox."""
