"""Gunicorn in the lab: NetBox is imported once (seconds of CPU) and then forked."""

import importlib.util
import os

bind = os.environ.get("NETBOX_BIND", "unix:/run/netbox/gunicorn.sock")
umask = 0o007
workers = 2
threads = 4
preload_app = True
timeout = 120
graceful_timeout = 3
keepalive = 75
max_requests = 0
accesslog = None
errorlog = "-"
forwarded_allow_ips = "*"
worker_tmp_dir = "/dev/shm"


def when_ready(server):
    """Make the lab's accounts with NetBox's own models, before the first request is taken."""
    spec = importlib.util.spec_from_file_location("accounts", "/opt/netbox/root/accounts.py")
    accounts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(accounts)
    accounts.ensure("/etc/netbox/secrets.json")
    server.log.info("accounts are in place")


def pre_fork(server, worker):
    """No worker may inherit a database connection: two processes would talk on one."""
    from django.db import connections

    connections.close_all()
