"""The status page and the metrics, as values."""
