"""Talking to a Kubernetes API server: client, reflector, event recorder, kubeconfig."""
