"""The rack in a box: machines, switch, NetBox and Kubernetes of a site on one Linux machine, in network namespaces of their own.

Invariants: an instance owns its state folder, its namespaces ``pin-<instance>-…``, its cgroups and its processes, and nothing else;
every step can be killed and run again; every address lives inside a namespace, so equal sites run side by side.
"""
