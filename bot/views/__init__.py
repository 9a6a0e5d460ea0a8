"""Block Kit views: pure functions from values to messages, modals and App Home."""
