"""Container images of our own: written here as OCI archives, without a builder, a daemon or a registry."""
