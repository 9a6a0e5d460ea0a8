"""The hosts of a fleet: invites, joining, revoking, and the settings that these write."""
