"""The Pydantic AI adapter: runs an agent of that framework as a durable session."""
