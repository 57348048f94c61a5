"""The StatefulSet controller: pods with stable names, ordinals and volumes."""
