"""PASEO: image restoration with latent diffusion priors and small learned operators."""
