"""The paths: each reads its parameters, asks a use case, and gives its answer."""
