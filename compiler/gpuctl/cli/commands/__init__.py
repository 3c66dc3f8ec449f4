"""One module per command. A command parses options, calls a use case and prints; it holds no other logic."""
