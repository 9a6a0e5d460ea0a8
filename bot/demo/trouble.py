"""What can go wrong with a demo."""

from supervisor_core.domain.errors import SupervisorError


class DemoError(SupervisorError):
    """The demo can't go on."""
