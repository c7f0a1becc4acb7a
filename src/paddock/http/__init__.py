"""HTTP/1 over a `Connection` from inside, and answers without secrets. What requests mean is not decided here."""
