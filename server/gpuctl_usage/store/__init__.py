"""Where all that is known of usage is kept: one file of SQLite, or a database of PostgreSQL."""
