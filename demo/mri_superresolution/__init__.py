"""A small 3D network learns to double the resolution of a real MRI volume; run it with `make demo`."""
