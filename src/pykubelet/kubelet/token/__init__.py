"""Service account tokens of pods."""
