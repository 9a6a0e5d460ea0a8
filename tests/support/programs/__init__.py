"""Variants of the command line that tests start: with crash points, hanging drives, or without rights."""
