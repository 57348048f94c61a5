"""What runs containers: the protocols a node asks, the plan of what to do, and the runtimes we bring."""
