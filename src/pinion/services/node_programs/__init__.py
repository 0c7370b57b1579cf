"""Small programs of the nodes' concerns. Each is one file, standard library only, and is placed on hosts whole (see README.md)."""
