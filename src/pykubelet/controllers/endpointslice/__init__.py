"""Where a service's traffic goes: endpoint slices and Endpoints, made of the pods it selects."""
