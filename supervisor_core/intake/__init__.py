"""Ways in for commands: submission, flag files, approvals, schedules. Each files its jobs once, by command id."""
