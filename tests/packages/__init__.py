"""What `make packages` makes: that it is whole and always the same, and that it works on an empty system."""
