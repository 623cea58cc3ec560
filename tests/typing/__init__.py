"""What the types of the model refuse: files that mypy must find fault with."""
