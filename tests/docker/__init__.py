"""What a real Docker engine does with our steps, beyond the contract that every backend keeps (`tests/contract`)."""
