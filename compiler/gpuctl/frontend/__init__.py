"""From text to documents: YAML reader, binder to models, templates, checks, linker, diagnostics."""
