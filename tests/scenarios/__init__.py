"""The ten scenarios, on one rack that is taken down after the last of them. A package, so that fixtures can have that scope."""
