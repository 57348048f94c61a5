"""Runs containers as processes of the machine, for machines without containerd, with or without root."""
