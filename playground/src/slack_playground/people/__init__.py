"""Actions of people in the local Slack, and the conversation as they read it.

The HTTP page and the test language both act through these classes.
"""
