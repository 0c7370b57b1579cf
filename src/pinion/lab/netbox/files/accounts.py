"""The lab's accounts: an administrator for the browser, and the least-privileged user that Pinion works as.

`ensure` is idempotent. It runs inside NetBox (its models do the hashing), at each start.
"""

import json
from pathlib import Path

from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from users.models import ObjectPermission, Token, User

PERMISSION_PREFIX = "pinion: "


def ensure(secrets_path):
    """Make or mend both accounts from the secrets file."""
    secrets = json.loads(Path(secrets_path).read_text())
    with transaction.atomic():
        _administrator("admin", secrets["admin_password"])
        _api_user("pinion", secrets["token"], secrets["permissions"])


def _administrator(name, password):
    user, created = User.objects.get_or_create(username=name, defaults={"is_superuser": True})
    if created or not user.check_password(password) or not user.is_superuser or not user.is_active:
        user.set_password(password)
        user.is_superuser = user.is_active = True
        user.save()


def _api_user(name, token, permissions):
    user, created = User.objects.get_or_create(username=name)
    if created:
        user.set_unusable_password()  # this account has no way in but its token
        user.save()
    for number, wanted in enumerate(permissions):
        permission, _ = ObjectPermission.objects.get_or_create(
            name=f"{PERMISSION_PREFIX}{number} {'/'.join(wanted['actions'])}",
            defaults={"actions": wanted["actions"], "description": wanted["description"]},
        )
        types = [ContentType.objects.get_by_natural_key(*text.split(".")) for text in wanted["object_types"]]
        if permission.actions != wanted["actions"]:
            permission.actions = wanted["actions"]
            permission.save()
        permission.object_types.set(types)
        permission.users.set([user])
    # A permission of an older version of this file must not linger.
    names = [f"{PERMISSION_PREFIX}{number} {'/'.join(wanted['actions'])}" for number, wanted in enumerate(permissions)]
    ObjectPermission.objects.filter(name__startswith=PERMISSION_PREFIX).exclude(name__in=names).delete()

    key, _, secret = token.removeprefix("nbt_").partition(".")
    found = Token.objects.filter(user=user, key=key).first()
    if found is None or not found.validate(secret):
        Token.objects.filter(user=user).delete()
        Token(user=user, version=2, key=key, token=secret, write_enabled=True, description="Pinion's driver").save()
