"""Pulls images for containers and removes unused ones."""
