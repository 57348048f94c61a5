"""The volumes of pods, and what else their containers find on disk and in their environment."""
