"""Container engines for tests: private ones that are started when wanted and leave nothing, and images for them."""
