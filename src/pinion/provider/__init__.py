"""The native Pulumi provider: NetBox records and switch configuration as resources of a Pulumi program."""
