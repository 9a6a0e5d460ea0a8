"""The strict Block Kit checker: reports what Slack would refuse, with the place, before anything is sent.

Pure: only the standard library, and nothing from the rest of the playground. Lengths are counted in code points.
"""

from slack_playground.blockkit.messages import check_message, check_options
from slack_playground.blockkit.problems import Problem
from slack_playground.blockkit.views import check_view

__all__ = ["Problem", "check_message", "check_options", "check_view"]
