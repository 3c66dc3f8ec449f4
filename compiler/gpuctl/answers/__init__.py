"""What programs get: every JSON shape once, and which error means what; for ``-o json`` and for a REST API alike."""
