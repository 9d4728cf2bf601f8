"""A process of its own that runs a saved model: all it needs of this project is `import convt3d`."""

import argparse
from pathlib import Path

import torch

import convt3d  # noqa: F401  (registers the operators that the saved model calls)


def main() -> None:
    """Loads the model, runs it on the input and saves the output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("script", "export"))
    parser.add_argument("model", type=Path)
    parser.add_argument("input", type=Path, help="tensor saved with torch.save; the model runs on its device")
    parser.add_argument("output", type=Path, help="where to save the result")
    arguments = parser.parse_args()

    low = torch.load(arguments.input, weights_only=True)
    if arguments.kind == "script":
        model = torch.jit.load(str(arguments.model), map_location=low.device)
    else:
        model = torch.export.load(arguments.model).module()
    with torch.no_grad():
        torch.save(model(low), arguments.output)


if __name__ == "__main__":
    main()
