"""Everything that knows diffusers: folders, families, parts, text, guidance, devices, autoencoders and what
`paseo doctor` checks.
"""
