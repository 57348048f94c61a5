"""Requests for certificates: those of nodes are approved and signed, and all cleared away at last.

`plan.py` and `signing.py` decide, purely; `approver.py`, `signer.py` and `cleaner.py` act on it.
"""
