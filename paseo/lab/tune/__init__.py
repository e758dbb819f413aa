"""The search for settings: spaces, trials and the study that remembers them."""
