"""Pictures of the console for README and docs: a seeded story, and Chromium that photographs its pages."""
