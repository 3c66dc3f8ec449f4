"""What a user may write: one module per kind, shared blocks, and the rules of single values.

The models here are the single source of the language. The binder, the JSON Schemas in ``schemas/``, the field
reference in ``docs/`` and ``gpuctl explain`` are all derived from them.
"""
