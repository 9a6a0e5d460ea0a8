"""Rules as pure functions and frozen values; imports nothing but the standard library."""
