"""Manifest files: follows files and folders, and keeps the last known good content of each file."""
