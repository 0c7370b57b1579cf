"""The site's certificate authority as the operator's machine keeps it: root, intermediate, the key that signs enrolment tokens."""
