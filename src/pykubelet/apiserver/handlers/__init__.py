"""The handlers of verbs and subresources, generic over all kinds."""
