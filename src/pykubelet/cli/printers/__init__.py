"""Objects told for people, in the layout of `kubectl describe`: documents in, text out."""
