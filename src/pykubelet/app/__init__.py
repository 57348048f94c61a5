"""Composition roots: straight-line code that creates each part of a program once and connects it."""
