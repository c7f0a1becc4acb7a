"""What Paddock costs next to plain calls, as ratios within one run. Nothing here is a test, and nothing is shipped."""
