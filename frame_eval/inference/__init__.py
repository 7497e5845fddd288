"""Statistics on arrays: intervals, tests and adjustments; no data frames here."""
