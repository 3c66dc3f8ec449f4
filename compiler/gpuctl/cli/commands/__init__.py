"""One module per command. A command holds no logic."""
