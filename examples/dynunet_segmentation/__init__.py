"""Training of a MONAI DynUNet before and after convt3d.convert."""
