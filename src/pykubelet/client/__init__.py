"""Client of a Kubernetes API server: REST client, reflector, informers, event recorder, kubeconfig, certificates."""
