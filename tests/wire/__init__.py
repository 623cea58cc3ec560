"""The durable form: every record comes back from JSON, and every form that was ever released still loads."""
