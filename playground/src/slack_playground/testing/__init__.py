"""The language of tests: `Playground`, people, channels, cards and forms, with and without `await`."""
