"""Objects as Tables, the form that `kubectl get` prints, and as PartialObjectMetadata."""
