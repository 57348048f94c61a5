"""The shim: a small program per container that outlives the kubelet.

It imports only a little of the standard library, `aio.packets` and `runtimes.log_format`, because there is one process per container, which
must be small and start at once.
"""
