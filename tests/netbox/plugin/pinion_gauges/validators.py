"""A rule of the server's, of the kind that `CUSTOM_VALIDATORS` takes."""

from extras.validators import CustomValidator
from ipam.models import VLAN
from rest_framework.request import Request


class AdoptedStaysAdopted(CustomValidator):
    """A VLAN of a certain description must not lose a field."""

    def validate(self, instance: VLAN, request: Request | None) -> None:
        """Refuse it."""
        if instance.description == "adopted for good" and not instance.custom_field_data.get("pinion_adopted"):
            self.fail("whoever adopts this VLAN keeps it", field="description")
