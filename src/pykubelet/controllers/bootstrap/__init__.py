"""Bootstrap tokens: the objects that machines need to join, and the removal of expired tokens."""
