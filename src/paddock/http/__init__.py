"""HTTP/1 over a `Connection` from inside, for the services of this host, and answers without secrets. What the requests mean is not decided here."""
