"""The text that Prometheus reads, as numbers by name and labels."""

from prometheus_client.parser import text_string_to_metric_families


def parsed(text: bytes) -> dict[str, float]:
    """Each sample as it would be typed: ``name{label="value"}``."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found
