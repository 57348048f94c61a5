"""Admission plugins: change or reject writes before the kind's own rules run."""
