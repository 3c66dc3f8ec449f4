"""What this is: its version, for the rooms, which must not import the package that offers them."""

__version__ = "0.1.0"
