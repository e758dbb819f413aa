"""A in pixels: super-resolution, blur, inpainting, JPEG, any function, any chain of them; measurements; the
five tasks.

    from paseo.degrade import task

    sr4 = task("sr4")
    y = sr4.measure(x, seeds=[0])            # x (1,3,H,W) in [0,1] → (1,3,H/4,W/4), noise σ_y = 0.01 included

A degradation is called on images (B,3,H,W) in [-1,1] and gives the measurement without noise, in the same
units. It has

    name, linear, params          linear: also `adjoint(y, size=None)`; the others raise Unsupported
    lift(y, size=None)            measurement → image size, to be encoded
    output_size(height, width)    size of the measurement of an image

`size` is the image's (height, width), needed only where the measurement does not tell it. All are
differentiable (JPEG through a twin), work in float64, and treat the images of a batch apart from each other.
"""

from __future__ import annotations

from paseo.degrade.blur import Blur, GaussianBlur, MotionBlur, StretchedBlur
from paseo.degrade.compose import Compose
from paseo.degrade.custom import Custom, load_function
from paseo.degrade.example import KnownByExample
from paseo.degrade.family import condition_of
from paseo.degrade.grain import Grain
from paseo.degrade.jpeg import JPEG
from paseo.degrade.jpeg_twin import SoftJPEG
from paseo.degrade.mask import CentreBox, Mask
from paseo.degrade.measure import measure, measurement_noise
from paseo.degrade.resize import Downsample, resize
from paseo.degrade.tasks import Task, register, task, tasks, user_task
from paseo.degrade.words import WORDS

__all__ = [
    "JPEG",
    "WORDS",
    "Blur",
    "CentreBox",
    "Compose",
    "Custom",
    "Downsample",
    "GaussianBlur",
    "Grain",
    "KnownByExample",
    "Mask",
    "MotionBlur",
    "SoftJPEG",
    "StretchedBlur",
    "Task",
    "condition_of",
    "load_function",
    "measure",
    "measurement_noise",
    "register",
    "resize",
    "task",
    "tasks",
    "user_task",
]
