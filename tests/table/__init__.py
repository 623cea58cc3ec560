"""The table as a whole: what its literal form can no longer promise by types."""
