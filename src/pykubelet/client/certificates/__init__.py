"""Certificates that an API server has signed: asked for, kept in files, renewed in time."""
