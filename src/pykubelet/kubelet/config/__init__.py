"""The sources of pods (files, a URL, the API server), merged into one stream of updates."""
