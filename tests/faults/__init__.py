"""kill -9, full disks, cut connections: what must hold when things go wrong."""
