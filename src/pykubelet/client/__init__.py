"""The API client: REST, reflector, informers, event recorder, kubeconfig, certificates."""
