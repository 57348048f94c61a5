"""PodSecurity: the Pod Security Standards, chosen by labels of namespaces."""
