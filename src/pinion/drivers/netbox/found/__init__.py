"""What NetBox has: the records that were read, and the units that they make."""
