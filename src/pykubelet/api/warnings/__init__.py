"""What a client is warned of: fields that are right but unwise, or that will be wrong one day.

In: documents that passed validation, with defaults. Out: the texts, in upstream's order.
"""
