"""Find, compile, import and edit documents; where they belong, and how they are sent to a service."""
