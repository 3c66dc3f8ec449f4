"""`fit`: check whether jobs would fit, and find smaller changes of their documents that do."""
