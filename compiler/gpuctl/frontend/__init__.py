"""Text to documents: reader (YAML with positions), binder (to models), templates, checks, linker, diagnostics."""
