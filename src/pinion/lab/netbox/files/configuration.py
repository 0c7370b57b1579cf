"""NetBox's configuration in the lab. Secrets come from a file of the instance, so that this file is the same everywhere."""

import json
from pathlib import Path

_secrets = json.loads(Path("/etc/netbox/secrets.json").read_text())

ALLOWED_HOSTS = [
    "*"
]  # reached by the plan's address, by name and through a loopback port; the network namespace is the fence
SECRET_KEY = _secrets["secret_key"]
API_TOKEN_PEPPERS = {1: _secrets["api_token_pepper"]}

# Peer authentication over the local socket: there is no database password.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "netbox",
        "USER": "netbox",
        "HOST": "/run/netbox-postgresql",
        "CONN_MAX_AGE": 300,
    }
}
REDIS = {
    "tasks": {"URL": "unix:///run/netbox-redis/redis.sock?db=0"},
    "caching": {"URL": "unix:///run/netbox-redis/redis.sock?db=1"},
}

CHANGELOG_RETENTION = 90
RELEASE_CHECK_URL = None
CENSUS_REPORTING_ENABLED = False  # a lab has no way out, and NetBox would wait for it
ISOLATED_DEPLOYMENT = True
TIME_ZONE = "UTC"

# What this instance adds: further settings of NetBox, by name.
_more = Path("/etc/netbox/settings.json")
if _more.exists():
    globals().update(json.loads(_more.read_text()))
