"""Admission plugins that objects of the API configure: webhooks and policies."""
