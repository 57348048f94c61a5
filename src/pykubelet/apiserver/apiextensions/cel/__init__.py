"""The CEL rules of custom resources: types and values from schemas, compilation, validation."""
