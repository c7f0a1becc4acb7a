"""What every backend with a supervisor shares: starting it, its commands, its directories. A launcher is all it lacks."""
