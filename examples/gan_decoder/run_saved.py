"""A process of its own that runs the saved decoder: all it needs of this project is `import convt3d`."""

import sys

import torch

import convt3d  # noqa: F401  (registers the operators that the saved decoder calls)


def main(model_file: str, latent_file: str, voxel_file: str) -> None:
    """Loads the decoder, runs it on the latent vectors, on their device, and saves the voxels."""
    latent = torch.load(latent_file, weights_only=True)
    decoder = torch.jit.load(model_file, map_location=latent.device)
    with torch.no_grad():
        torch.save(decoder(latent), voxel_file)


if __name__ == "__main__":
    main(*sys.argv[1:])
