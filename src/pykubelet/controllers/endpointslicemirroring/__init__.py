"""The EndpointSlice mirroring controller."""
