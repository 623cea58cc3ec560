"""The examples of the adapter, run as they are."""
