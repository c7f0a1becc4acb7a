"""What Paddock costs next to plain `os` calls, as ratios within one run. Nothing here is a test, and nothing is shipped."""
