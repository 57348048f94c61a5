"""Who may ask the node for what."""
