"""Directories, rotation and reading of container logs."""
