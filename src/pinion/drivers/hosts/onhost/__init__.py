"""The half of the hosts driver that runs on the host itself: it reads, compares and applies one concern, in one go.

Ansible, pyinfra and the SSH driver send it as a zip on standard input (`bundle`, `bootstrap`); nothing is installed. So both ways to
converge a host do the same thing by construction, in one round trip.

Invariants:

* Standard library only, Python 3.11 or later, nothing from the rest of Pinion.
* One run at a time on a host (`guard.converge_lock`).
* Every step is noted in the concern's journal before it is taken, so a run that is killed anywhere is finished by the next one, and all
  that a concern placed can be taken back.
* Files are replaced by rename, after their validation.
"""
