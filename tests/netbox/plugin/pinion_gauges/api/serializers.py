"""How the records are shown."""

from dcim.api.serializers import DeviceSerializer
from django.contrib.contenttypes.models import ContentType
from netbox.api.fields import ContentTypeField
from netbox.api.serializers import NetBoxModelSerializer
from rest_framework import serializers

from ..models import Gauge, Reading


class GaugeSerializer(NetBoxModelSerializer):
    url = serializers.HyperlinkedIdentityField(view_name="plugins-api:pinion_gauges-api:gauge-detail")
    device = DeviceSerializer(nested=True)

    class Meta:
        model = Gauge
        fields = ("id", "url", "display", "name", "device", "tags", "custom_fields", "created", "last_updated")
        brief_fields = ("id", "url", "display", "name")


class ReadingSerializer(NetBoxModelSerializer):
    url = serializers.HyperlinkedIdentityField(view_name="plugins-api:pinion_gauges-api:reading-detail")
    measured_type = ContentTypeField(queryset=ContentType.objects.all())

    class Meta:
        model = Reading
        fields = (
            "id", "url", "display", "name", "measured_type", "measured_id", "tags", "custom_fields", "created", "last_updated",
        )  # fmt: skip
        brief_fields = ("id", "url", "display", "name")
