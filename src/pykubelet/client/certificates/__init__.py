"""Certificates signed by the API server: requested, stored in files, renewed before they expire."""
