"""Objects as rows of a table, for people who read `kubectl get`; and objects as their metadata alone."""
