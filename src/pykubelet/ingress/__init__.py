"""The ingress controller of `pykubelet up`: routes HTTP requests to Services, as Ingresses say."""
