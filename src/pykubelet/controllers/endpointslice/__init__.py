"""The EndpointSlice controller: maintains the EndpointSlices of services."""
