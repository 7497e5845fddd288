"""The catalogue of metrics, one module per family."""
