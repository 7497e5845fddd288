"""The verbs: from a frame and metrics to a tidy result frame."""
