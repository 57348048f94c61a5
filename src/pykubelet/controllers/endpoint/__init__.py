"""The endpoints controller: maintains the Endpoints objects of services."""
