"""Output of the commands: tables, plans, diagnostics; one module per format."""
