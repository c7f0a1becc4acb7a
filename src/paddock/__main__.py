"""`python -m paddock`: the same as the program `paddock`."""

from paddock.cli import main

if __name__ == "__main__":
    main()
