"""A 3D GAN's decoder: converted, scripted, run in a new process."""
