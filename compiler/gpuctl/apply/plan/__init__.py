"""What would be done, decided and checked before anything is written."""
