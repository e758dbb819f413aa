"""What methods cost at full size: seconds and bytes, with random networks of the real shapes."""
