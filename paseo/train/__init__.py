"""How the embedded model was made, and how to make one's own: codec, prior, and the ℓ1 recipe of the latent
operator.
"""
