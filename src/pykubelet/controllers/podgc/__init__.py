"""The pod garbage collector: deletes pods that no kubelet will delete."""
