"""What the API server refuses: complaints about documents, in its order and its words."""
