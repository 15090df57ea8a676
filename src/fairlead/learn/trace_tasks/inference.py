"""An inference task for `fairlead trace`: a small convnet goes through pictures, some at a time. Run as `python -m`."""

from __future__ import annotations

import argparse
import json

import torch

from fairlead.learn.trace_tasks.images import device, draw, network

DRAWN = 500  # pictures, which come again and again


@torch.no_grad()
def main() -> None:
    """Answer all pictures, and tell how many are done."""
    args = _arguments()
    where = device()
    pictures = draw(DRAWN, 1)[0].to(where)
    model = network(args.width).to(where).eval()
    model(pictures[: args.batch])  # the first time is longer
    print(json.dumps({"ready": True}), flush=True)
    done = told = 0
    while done < args.samples:
        some = [n % DRAWN for n in range(done, min(done + args.batch, args.samples))]
        model(pictures[some]).argmax(dim=1).cpu()
        done += len(some)
        if done - told >= args.samples / 50 or done == args.samples:
            told = done
            print(json.dumps({"done": done, "of": args.samples}), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="inference", description="Run a small convnet over drawn patterns.")
    parser.add_argument("--samples", type=int, default=10000, help="pictures to answer (default 10000)")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer (default 32)")
    parser.add_argument("--batch", type=int, default=8, help="pictures at a time (default 8)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
