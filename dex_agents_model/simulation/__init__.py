"""Simulate sessions."""
