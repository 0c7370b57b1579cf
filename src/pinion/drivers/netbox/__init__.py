"""The NetBox driver."""
