"""The only way out of a sandbox: a proxy on this host that connects to what a `Network` allows, and to nothing else."""
