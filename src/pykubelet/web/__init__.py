"""The page: what happens on a node and in its cluster, for a person with a browser."""
