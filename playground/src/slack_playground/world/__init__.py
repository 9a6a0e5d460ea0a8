"""The state of the local Slack: workspace, app, faults, limits and the journal; every change is published here.

No HTTP and no sockets. May be imported by everything in the playground but `blockkit` and `values`.
"""
