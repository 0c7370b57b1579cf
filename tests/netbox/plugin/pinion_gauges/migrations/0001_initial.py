"""Both tables."""

import django.db.models.deletion
import taggit.managers
import utilities.json
from django.db import migrations, models


def _fields() -> list[tuple[str, object]]:
    return [
        ("id", models.BigAutoField(primary_key=True)),
        ("created", models.DateTimeField(auto_now_add=True, null=True)),
        ("last_updated", models.DateTimeField(auto_now=True, null=True)),
        (
            "custom_field_data",
            models.JSONField(blank=True, default=dict, encoder=utilities.json.CustomFieldJSONEncoder),
        ),
        ("name", models.CharField(max_length=100)),
        ("tags", taggit.managers.TaggableManager(through="extras.TaggedItem", to="extras.Tag")),
    ]


class Migration(migrations.Migration):
    """The only one."""

    initial = True
    dependencies = (
        ("contenttypes", "0002_remove_content_type_name"),
        ("dcim", "0001_squashed"),
        ("extras", "0001_squashed"),
    )
    operations = (
        migrations.CreateModel(
            "Gauge",
            [
                *_fields(),
                (
                    "device",
                    models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="dcim.device"),
                ),
            ],
            options={"ordering": ("pk",)},
        ),
        migrations.CreateModel(
            "Reading",
            [
                *_fields(),
                ("measured_id", models.PositiveBigIntegerField()),
                (
                    "measured_type",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="contenttypes.contenttype",
                    ),
                ),
            ],
            options={"ordering": ("pk",)},
        ),
    )
