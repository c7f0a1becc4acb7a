"""Where a sandbox can run: one module or package for each backend, holding its spec and its driver, and nothing shared."""
