"""Explains what a pod waits for, from the recorded decisions of the kubelet."""
