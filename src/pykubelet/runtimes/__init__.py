"""Runtimes of containers: CRI, processes of the machine, and a simulation."""
