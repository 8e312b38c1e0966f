"""What a JSON payload says: its leaves, their columns, and how both drift."""
