"""Custom resources: CustomResourceDefinitions and the objects they define."""
