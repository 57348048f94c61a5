"""Runs containers with a runtime that serves the Container Runtime Interface, such as containerd or CRI-O."""
