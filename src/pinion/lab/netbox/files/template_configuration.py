"""The configuration under which the empty database is migrated. Nothing of it ends up in the database."""

ALLOWED_HOSTS = ["*"]
SECRET_KEY = "only-for-the-migration-of-an-empty-database-" + "-" * 20
API_TOKEN_PEPPERS: dict[int, str] = {}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "netbox",
        "USER": "netbox",
        "HOST": "/run/netbox-postgresql",
    }
}
REDIS = {
    "tasks": {"URL": "unix:///run/netbox-redis/redis.sock?db=0"},
    "caching": {"URL": "unix:///run/netbox-redis/redis.sock?db=1"},
}
