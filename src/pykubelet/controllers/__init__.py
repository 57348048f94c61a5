"""The controllers of kube-controller-manager, one folder each; `framework/` holds what they share."""
