"""The taint eviction controller: deletes pods that do not tolerate NoExecute taints."""
