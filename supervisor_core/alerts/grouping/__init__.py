"""Grouping: storms become one digest, consequences fold into their cause, flapping is one alert."""
