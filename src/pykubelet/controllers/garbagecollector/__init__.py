"""Deletes what nobody owns any more, and lets go of what its owner leaves behind."""
