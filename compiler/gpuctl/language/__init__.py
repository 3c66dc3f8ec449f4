"""The language: one module per kind of document, shared blocks, and the rules of single values.

The models here are the single source of the language. The binder, the JSON Schemas in ``schemas/``, the field
reference in ``docs/`` and ``gpuctl explain`` are all derived from them.
"""
