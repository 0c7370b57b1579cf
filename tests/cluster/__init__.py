"""What we do in a cluster, on a real API server that ends with the last of these tests. A package, so that fixtures can have that scope."""
