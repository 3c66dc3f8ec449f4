"""The command line: one module per command, which holds no logic; printers, one per format."""
