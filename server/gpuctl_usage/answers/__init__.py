"""What is asked about usage, and the answers as programs get them: plain values, with the names of the API."""
