"""PodControl and the controllers that make pods with it."""
