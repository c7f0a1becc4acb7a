"""The seccomp filters: that the programs say what the tables say, and what the kernel makes of them."""
