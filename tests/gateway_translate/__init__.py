"""Translation between the wire formats: the official clients' types and decoders are the judges."""
