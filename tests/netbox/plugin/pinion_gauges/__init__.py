"""A NetBox plugin with kinds of its own, as others have them: one names a device, one any object. The tests install it in their NetBox."""

from netbox.plugins import PluginConfig


class GaugesConfig(PluginConfig):
    """What NetBox needs to know of it."""

    name = "pinion_gauges"
    verbose_name = "Gauges"
    version = "1.0"
    base_url = "gauges"

    def ready(self) -> None:
        """Let readings go with the interface that they are of, as a plugin does that cleans up behind itself."""
        super().ready()
        from dcim.models import Interface
        from django.contrib.contenttypes.fields import GenericRelation

        from .models import Reading

        GenericRelation(Reading, "measured_id", "measured_type").contribute_to_class(Interface, "gauge_readings")


config = GaugesConfig
