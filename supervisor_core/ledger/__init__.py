"""The local SQLite file in which a host writes first, always: tables, `step`, queries, migrations."""
