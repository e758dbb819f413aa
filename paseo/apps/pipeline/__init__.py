"""PaseoPipeline: the diffusers-style face of `paseo.restore`.

    pipe = PaseoPipeline.from_pretrained("stabilityai/stable-diffusion-3.5-medium",
    operator="user/paseo-sd35-sr4") pipe = PaseoPipeline.from_pipe(some_stable_diffusion_pipeline,
    operator="path/to/operator") result = pipe(image, "sr4", num_images_per_prompt=4,
    generator=[torch.Generator().manual_seed(s) for s in range(4)]) result.images, result.nfe, result.seconds,
    result.peak_memory, result.seeds

Importing this package imports diffusers.
"""

from paseo.apps.pipeline.output import PaseoPipelineOutput
from paseo.apps.pipeline.pipe import PaseoPipeline

__all__ = ["PaseoPipeline", "PaseoPipelineOutput"]
