"""The pod lifecycle event generator and its cache of pod states."""
