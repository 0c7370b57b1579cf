"""The concerns of hosts on one rack of the lab that states them all; it is taken down after the last test. A package, so that fixtures can
have that scope."""
