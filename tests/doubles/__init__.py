"""What stands in for the world in tests: NetBox, hosts and a switch in memory, an engine for the provider, a proxy that fails on demand."""
