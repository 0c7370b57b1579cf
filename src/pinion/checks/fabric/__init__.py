"""Whether switches and NICs agree on the traffic classes: from the files that they get, by parsers that know nothing of the writers."""
