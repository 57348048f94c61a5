"""Patches on documents: strategic merge patch, JSON merge patch, JSON patch."""
