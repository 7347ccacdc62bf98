"""How much fits: the largest batch or context with which a process stays within so much resident memory."""

import argparse
import dataclasses
import pathlib
import tempfile

from runs import VARIANTS, Comparison, Failed, tell

SEARCH_STEPS = 2  # the second is the first with the optimizer's state from its beginning


def largest_that_fits(fits, first):
    """The largest size for which fits(size) holds, to within a sixteenth of it; 0 if there is none."""
    size, good, bad = first, 0, None
    while size > good:
        if fits(size):
            good = size
        else:
            bad = size
        if bad is None:
            size = 2 * good
        elif bad - good > max(1, good // 16):
            size = (good + bad) // 2
        else:
            size = good
    return good


class Search:
    """For the largest batch or context with which a variant stays within so many resident bytes."""

    def __init__(self, arguments, model, precision, name):
        self.arguments, self.model, self.precision, self.name = arguments, model, precision, name
        self.resident = {}  # bytes, by the sizes that ran
        self.refusals = {}

    def run(self, size):
        arguments = self.arguments
        model = dataclasses.replace(self.model, **{arguments.largest: size})
        with tempfile.TemporaryDirectory() as folder:
            comparison = Comparison(arguments, model, self.precision, SEARCH_STEPS, pathlib.Path(folder))
            comparison.prepare()
            resident = self.run_within(comparison, comparison.idle)
            if resident > arguments.within and VARIANTS[self.name].budget:
                resident = self.run_within(comparison, comparison.idle + resident - arguments.within)
            return resident

    def run_within(self, comparison, apart):
        """A budget is for what is planned, so what the process has apart from that is taken off."""
        budget = f"{(self.arguments.within - apart) // 2**20}MiB"
        comparison.arguments = argparse.Namespace(**{**vars(self.arguments), "memory": budget})
        return comparison.run(self.name, "--micro-batch", comparison.model.batch).resident

    def fits(self, size):
        try:
            self.resident[size] = resident = self.run(size)
        except Failed as failure:
            self.refusals[size] = str(failure)
            return False
        tell(f"{self.precision}, {VARIANTS[self.name].label}, {self.arguments.largest} {size}: "
             f"{resident / 2**20:.0f} MiB resident")
        return resident <= self.arguments.within


def find_largest(arguments, model, precision):
    """The document of one precision: for each variant the largest size, its bytes, and what the next one ran into."""
    rows = {}
    within, what = arguments.within / 2**20, arguments.largest
    print(f"{arguments.model}, {precision}: the largest {what} within {within:.0f} MiB resident, to a sixteenth\n")
    print(f"| | largest {what} | resident, MiB | the next larger tried |\n|---|---|---|---|")
    for name in arguments.variants:
        search = Search(arguments, model, precision, name)
        size = largest_that_fits(search.fits, getattr(model, what))
        above = min((n for n in {**search.resident, **search.refusals} if n > size), default=None)
        reason = search.refusals.get(above) or f"{search.resident[above] / 2**20:.0f} MiB"
        resident = search.resident.get(size, 0)
        rows[name] = {"largest": size, "resident_bytes": resident, "next": above, "next_reason": reason}
        print(f"| {VARIANTS[name].label} | {size} | {resident / 2**20:.0f} | {above}: {reason} |", flush=True)
    return {"model": arguments.model, "precision": precision, "largest": what, "within_bytes": arguments.within,
            "threads": arguments.threads, "rows": rows}
