"""Files that the program writes for people: a new configuration, a converted or changed one, `.env`, the service unit.

Reading and checking a configuration belongs to `config` itself.
"""
