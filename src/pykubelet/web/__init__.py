"""The page: pods, nodes, events and objects of a node and its cluster in a browser."""
