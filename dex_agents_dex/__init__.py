"""The binding of the session model to Dex: Steps, Channels, Attributes, client and runtime."""
