"""The NetBox driver on a real NetBox, which ends with the last of these tests. A package, so that fixtures can have that scope."""
