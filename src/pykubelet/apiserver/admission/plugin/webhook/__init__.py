"""Admission webhooks: which are called, with what, and what their responses mean."""
