"""Certificates that an API server has signed: asked for, kept in files, renewed in time.

`wish.py` says what is asked for, `outcome.py` what became of it, `rotation.py` when the next one is due: all pure.
`asking.py` speaks to the API server, `pair_files.py` to the disk. `bootstrap.py` makes a node of a machine with a token,
`keeper.py` keeps a certificate valid for as long as it runs.
"""
