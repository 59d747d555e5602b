#!/usr/bin/env python3
"""Turns a model catalogue in JSON into the table that the crate embeds.

    python3 make.py catalogue.json > models.tsv

The JSON is an object with `as_of` (a month or a day) and `providers`, a list of
objects with `id`, `name`, `env` (variable names) and `models`. A model has `id`,
`name`, `protocol` (a package name), `limit` (`context`, `output` and perhaps
`input`), `cost` (dollars for a million tokens: `input`, `output`, `cache.read`,
`cache.write`, and perhaps `tiers` with the same fields and `tier.size`),
`reasoning`, `attachment`, `toolcall`, `temperature`, `input` (modalities),
`status`, `released`, and perhaps `family` and `url`.

The table is sorted, has one line for each provider and one for each model below
it, and is described in `src/catalogue/table.rs`, which reads it. Nothing is left
out but two things that say nothing new: noise behind the ninth decimal of a
price, and the older `experimentalOver200K` price where there are tiers.
"""

import json
import sys
from collections import Counter
from decimal import Decimal

VERSION = "1"
MODALITIES = ["text", "audio", "image", "video", "pdf"]
STATUSES = ["active", "beta", "alpha", "deprecated"]
FLAGS = [("r", "reasoning"), ("a", "attachment"), ("c", "toolcall"), ("t", "temperature")]


def fail(message):
    sys.exit(f"make.py: {message}")


def cell(value):
    """A value as it stands in a line."""
    text = str(value)
    if any(character in text for character in "\t\r\n"):
        fail(f"{text!r} has a tab or a line break in it")
    return text


def line(cells):
    """A line without the empty cells at its end."""
    return "\t".join(cell(each) for each in cells).rstrip("\t")


def amount(value):
    """Dollars in as few digits as they need, never as 1E-7."""
    number = Decimal(str(value)).quantize(Decimal("1e-9"))
    if number < 0:
        fail(f"{value} is no price")
    text = f"{number:f}".rstrip("0").rstrip(".")
    return text or "0"


def price(cost):
    """`input/output`, and `/read/write` where there is a price for the cache."""
    cache = cost.get("cache", {})
    amounts = [amount(cost["input"]), amount(cost["output"])]
    amounts += [amount(cache.get("read", 0)), amount(cache.get("write", 0))]
    while len(amounts) > 2 and amounts[-1] == "0":
        amounts.pop()
    return "/".join(amounts)


def prices(cost):
    """The base price and then each tier as `>size:price`, by size."""
    tiers = [(tier["tier"]["size"], tier["tier"]["type"], tier) for tier in cost.get("tiers", [])]
    if any(kind != "context" for _, kind, _ in tiers):
        fail("a price tier is for something else than the size of the context")
    over = cost.get("experimentalOver200K")
    if over is not None and not tiers:
        tiers = [(200000, "context", over)]
    tiers.sort(key=lambda tier: tier[0])
    return " ".join([price(cost)] + [f">{size}:{price(tier)}" for size, _, tier in tiers])


def words(values, known):
    """A list of known words in our order."""
    for value in values:
        if value not in known:
            fail(f"{value!r} is none of {', '.join(known)}: teach src/catalogue about it first")
    return ",".join(word for word in known if word in values)


def service(model):
    return (model["protocol"], model.get("url", ""))


def usual(models):
    """The protocol and address of most models of a provider."""
    counts = Counter(service(model) for model in models)
    return min(counts, key=lambda each: (-counts[each], each)) if counts else ("", "")


def model_line(model, inherited):
    limit = model["limit"]
    status = words([model["status"]], STATUSES)
    return line(
        [
            "",
            model["id"],
            model["name"],
            model.get("family", ""),
            "".join(letter for letter, key in FLAGS if model[key]),
            limit["context"],
            limit.get("input", ""),
            limit["output"],
            prices(model["cost"]),
            words(model["input"], MODALITIES),
            "" if status == "active" else status,
            model["released"],
            *(("", "") if service(model) == inherited else service(model)),
        ]
    )


def by_id(items, what):
    ordered = sorted(items, key=lambda item: item["id"])
    for one, next_one in zip(ordered, ordered[1:]):
        if one["id"] == next_one["id"]:
            fail(f"{what}{one['id']} is there twice")
    return ordered


def table(catalogue):
    yield line(["catalogue", VERSION, catalogue["as_of"]])
    for provider in by_id(catalogue["providers"], "provider "):
        models = by_id(provider["models"], f"model {provider['id']}/")
        inherited = usual(models)
        yield line([provider["id"], provider["name"], ",".join(provider["env"]), *inherited])
        for model in models:
            yield model_line(model, inherited)


def main():
    if len(sys.argv) != 2:
        fail("say which file: make.py catalogue.json > models.tsv")
    with open(sys.argv[1], encoding="utf-8") as file:
        catalogue = json.load(file, parse_float=Decimal)
    lines = list(table(catalogue))
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
