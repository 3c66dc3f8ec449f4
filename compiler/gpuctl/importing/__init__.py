"""Imports job descriptions of other tools as documents, with a ledger of each source line.

Nothing is guessed: values that the source does not name are missing. Nothing is left out without an entry.
"""
