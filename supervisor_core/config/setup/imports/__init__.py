"""Configurations of other tools, converted for `supervisor import`: one module for each format, listed in `formats`.

It may look at processes and at the drive, but changes nothing.
"""
