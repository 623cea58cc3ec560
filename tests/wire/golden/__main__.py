"""Writes the golden files that are missing, and names them."""

from __future__ import annotations

import json

from dex_agents_model.wire import dump
from tests.wire.samples import SAMPLES

from . import FOLDER


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for sample in SAMPLES:
        path = FOLDER / f"{sample.name}.json"
        if not path.exists():
            data = json.dumps(dump(sample.value, sample.shape), indent=2, ensure_ascii=False)
            path.write_text(data + "\n", encoding="utf-8")
            print(path)


if __name__ == "__main__":
    main()
