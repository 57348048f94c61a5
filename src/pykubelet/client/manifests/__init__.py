"""Manifests on disk, followed: what files say, or said when they last made sense."""
