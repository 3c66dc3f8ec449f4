"""The usage database: one SQLite file, or a PostgreSQL database."""
