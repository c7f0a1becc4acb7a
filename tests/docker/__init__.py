"""What only containers have: engines, images, relays, and what is left of them."""
