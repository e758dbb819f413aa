"""What a setting is, how it is read from text, and the settings that are kept for each model and task."""
