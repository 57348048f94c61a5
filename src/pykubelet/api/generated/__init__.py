"""Written by tools/generate_api.py: Structs per API group and schema.json."""
