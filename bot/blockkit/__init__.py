"""The strict Block Kit checker: what Slack would refuse, said before it is sent, with the place named.

Pure, and of the standard library alone. Lengths are counted in code points.
"""

from bot.blockkit.messages import check_message, check_options
from bot.blockkit.problems import Problem
from bot.blockkit.views import check_view
from bot.blockkit.words import escape, fit, unescape

__all__ = ["Problem", "check_message", "check_options", "check_view", "escape", "fit", "unescape"]
