"""What is printed: tables, plans, diagnostics, one format a module."""
