"""What runs on the event loop: one loop for the connections of every provider."""
