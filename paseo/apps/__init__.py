"""What people start: the one-file job, the command line, the page, the diffusers pipeline and the demo."""
