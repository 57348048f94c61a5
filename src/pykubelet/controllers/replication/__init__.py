"""The ReplicationController controller."""
