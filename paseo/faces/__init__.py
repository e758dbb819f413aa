"""Faces in photographs: find them, bring each to the face model's frame, restore it there, put it back.

    restored, measurement ─ detect ─▶ landmarks ─ align ─▶ frame ─ restore_face ─▶ 128 px ─ paste ─▶ picture

`detect` is MTCNN (its weights are installed apart), `frame_of` is FFHQ's alignment, `FaceView` is the
picture's own degradation as the face model sees it, and `restore_faces` does all of it for one picture and
says what it did and why.
"""

from __future__ import annotations

from paseo.faces.align import Frame, frame_of
from paseo.faces.detect import Face, detect
from paseo.faces.restore import FaceModel, FaceReport, Retouched, restore_faces
from paseo.faces.view import FaceView
from paseo.faces.weights import weights_available

__all__ = [
    "Face",
    "FaceModel",
    "FaceReport",
    "FaceView",
    "Frame",
    "Retouched",
    "detect",
    "frame_of",
    "restore_faces",
    "weights_available",
]
