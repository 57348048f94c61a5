"""What objects count in ResourceQuotas: the evaluators of the kinds, scopes, and sums of amounts."""
