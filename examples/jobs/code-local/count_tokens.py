"""Counts the words of the files of a directory: the code of code-local.yaml."""

import argparse
import json
import pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--config", type=pathlib.Path, required=True)
config = json.loads(parser.parse_args().config.read_text())
for path in sorted(pathlib.Path(config["data"]).glob(config["files"])):
    print(path.name, len(path.read_text().split()))
