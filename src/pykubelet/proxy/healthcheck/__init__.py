"""Tells load balancers whether this node serves a Service, and monitors whether the proxy keeps up."""
