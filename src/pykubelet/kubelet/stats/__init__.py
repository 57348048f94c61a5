"""What the node and its pods use, for people and for machines."""
