"""Printers: tables, descriptions, and the live view of `pykubelet up`."""
