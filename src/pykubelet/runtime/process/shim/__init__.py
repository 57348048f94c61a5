"""The supervisor of one container: a program of its own, which outlives the agent.

Its modules import little of the standard library and nothing else: there is one such process for each container, and it
should be small and started at once. `spawner` is forked into `supervisor`, that into `enter`, which becomes the container.
"""
