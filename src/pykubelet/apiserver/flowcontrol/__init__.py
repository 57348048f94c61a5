"""Priority and fairness: one busy client delays neither other clients nor more important requests."""
