"""What the tests of failures need: a proxy that fails on purpose, fast processes to kill, fast looks at a cluster."""
