"""The cluster half: room for connection, plan, apply and reading. Nothing in the compiler imports it."""
