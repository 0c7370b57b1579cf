"""The concerns of hosts, one a module: a pure function that says what a host gets, and why. `pinion.plan.hosts` names them in order."""
