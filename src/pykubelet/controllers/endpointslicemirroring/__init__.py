"""Mirrors Endpoints that users keep to EndpointSlices."""
