"""``sn calibrate``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import common, room
from .guard import tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..calibration.judge import Judged, Order, Score
    from ..calibration.runs import Run, Skipped
    from ..calibration.sections import Compared, Sections
    from ..calibration.site import SiteFit


@click.command()
@click.argument("runs", type=click.Path(path_type=Path))
@common.inventory_option
@click.option("--rows", is_flag=True, help="Show each run, the largest error first.")
@click.option("--fit", is_flag=True, help="Fit the site's constants, write calibration.yaml.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@common.json_option
def command(
    runs: Path, inventory_path: Path | None, rows: bool, fit: bool, yes: bool, as_json: bool
) -> int:
    """Predict recorded runs, show the error, and fit the site's constants to them.

    RUNS is a table of training runs with their measured step times (docs/calibrate.md shows the
    format). With --fit the few constants of links and cards that a site's runs can tell are
    fitted to them, tested on runs that the fit has not seen, and written to calibration.yaml
    beside the inventory, which sn plan and sn-submit then use.

    \b
    Example:
      sn calibrate our-runs.yaml --rows
    """
    from ..calibration.document import read_runs
    from ..calibration.judge import order
    from ..calibration.runs import runs_of
    from ..calibration.sections import sections_of

    document = read_runs(runs)
    found, skipped = runs_of(document)
    judged, strange = _judged(found, inventory_path)
    parts = sections_of(document)
    skipped = [*skipped, *strange, *parts.skipped]
    timed = [item for item in judged if item.off is not None and not item.run.failed]
    ranked = order([item.run for item in timed], [item.step_time_s for item in timed])
    fitted = _fitted([item.run for item in judged]) if fit else None
    if as_json:
        common.print_json(_document(judged, skipped, ranked, fitted) | _sections(parts))
    else:
        _print_scores(judged, ranked)
        _print_sections(parts)
        _print_rest(judged, skipped)
        if rows:
            _print_rows(judged)
        if fitted is not None:
            _print_fit(fitted)
    if fitted is not None:
        return _keep(fitted, runs, inventory_path, yes)
    return 0


def _judged(runs: Sequence[Run], given: Path | None) -> tuple[list[Judged], list[Skipped]]:
    """Return what the model says of the runs with the constants that the site uses now."""
    from ..calibration.judge import judge_all
    from ..inventory.calibration import load_calibration
    from ..planner.constants import checked

    own = load_calibration(room.inventory_path(given))
    values = dict(checked(own.constants, own.source))
    ours = [run for run in runs if all(own.concerns(offer.accelerator.id) for offer in run.offers)]
    if values and ours:
        tell("note", f"{len(ours)} runs are predicted with the constants of {own.source}")
    concerned = {id(run) for run in ours}
    others, strange = judge_all([run for run in runs if id(run) not in concerned])
    known, strange_too = judge_all(ours, values)
    place = {id(run): number for number, run in enumerate(runs)}
    judged = sorted([*others, *known], key=lambda item: place[id(item.run)])
    return judged, [*strange, *strange_too]


def _fitted(runs: Sequence[Run]) -> SiteFit:
    from ..calibration.site import fit_site

    return fit_site(runs, lambda text: print(f"sn: {text}", file=sys.stderr))


def _keep(fitted: SiteFit, runs: Path, given: Path | None, yes: bool) -> int:
    """Write the calibration if it helps and the user agrees."""
    from ..calibration.site import place_of, text_of
    from ..data import write_atomically

    if not fitted.helps:
        tell(
            "warning",
            "unseen runs are predicted no better than before, but for chance: nothing is written",
        )
        return 5
    path = place_of(room.inventory_path(given))
    if not yes and not click.confirm(f"write {path}?", err=True):
        tell("note", "nothing is written")
        return 0
    write_atomically({path: text_of(fitted, runs.name)})
    tell("note", f"{path} is written")
    return 0


def _document(
    judged: Sequence[Judged], skipped: Sequence[Skipped], ranked: Order, fitted: SiteFit | None
) -> dict[str, Any]:
    from dataclasses import asdict

    found: dict[str, Any] = {
        "version": 1,
        "runs": [_run(item) for item in judged],
        "skipped": [asdict(item) for item in skipped],
        "sources": [asdict(item) for item in _by_source(judged)],
        "order": asdict(ranked),
    }
    if fitted is not None:
        found["fit"] = asdict(fitted) | {"helps": fitted.helps}
    return found


def _run(item: Judged) -> dict[str, Any]:
    return {
        "id": item.run.id,
        "source": item.run.source,
        "stack": item.run.stack,
        "stack_assumed": _guessed(item.run),
        "step_time_s": item.step_time_s,
        "memory_gib": item.memory_gib,
        "breakdown": item.breakdown,
        "fits": item.fits,
        "micro_batch": item.micro_batch,
        "recompute_assumed": item.recompute,
        "measured_step_time_s": item.run.measured_s,
        "measured_memory_gib": item.run.memory_gib,
        "failed": item.run.failed,
        "error": item.off,
        "assumed": list(item.assumed),
    }


def _guessed(run: Run) -> bool:
    """Tell whether neither the run nor its source named the profile."""
    return any(note.startswith("stack ") for note in run.assumed)


def _sections(parts: Sections) -> dict[str, Any]:
    return {
        "memory": [_compared(item) for item in parts.memory],
        "layers": [_compared(item) for item in parts.layers],
    }


def _compared(item: Compared) -> dict[str, Any]:
    return {
        "id": item.id,
        "quantity": item.quantity,
        "predicted": item.predicted,
        "measured": item.measured,
        "error": item.off,
        "assumed": list(item.assumed),
    }


def _by_source(judged: Sequence[Judged]) -> list[Score]:
    from ..calibration.judge import scores

    return scores(judged, {id(item.run): item.run.source for item in judged})


def _print_scores(judged: Sequence[Judged], ranked: Order) -> None:
    from ..calibration.stacks import published

    columns = ["source", "runs", "mean", "median", "largest", "bias", "memory", "refused"]
    rows = [
        [
            found.name[:44],
            found.runs,
            f"{found.mean:.1%}",
            f"{found.median:.1%}",
            f"{found.largest:.1%}",
            f"{found.bias:+.1%}",
            "" if found.memory is None else f"{found.memory:.1%}",
            found.refused,
        ]
        for found in _by_source(judged)
    ]
    if rows:
        common.print_table(columns, rows)
    if any(published(item.run.source) for item in judged):
        click.echo(
            "predicted with the catalogue's constants, which were fitted to published runs: see "
            "docs/accuracy.md for unseen ones"
        )
    if ranked.groups:
        click.echo(
            f"{_of(ranked.groups, 'job')} with several layouts: the one predicted fastest was "
            f"{ranked.regret:.1%} slower than the best, {ranked.worst:.1%} at most; "
            f"{ranked.right:.1%} of {ranked.pairs} pairs in the right order"
        )


def _print_sections(parts: Sections) -> None:
    for name, found in (("times of layers", parts.layers), ("parts of memory", parts.memory)):
        if found:
            mean = sum(abs(item.off) for item in found) / len(found)
            click.echo(f"{len(found)} {name}: {mean:.1%} off, the mean")


def _print_rest(judged: Sequence[Judged], skipped: Sequence[Skipped]) -> None:
    untimed = sum(item.run.measured_s is None and not item.run.failed for item in judged)
    failed = [item for item in judged if item.run.failed]
    if untimed:
        click.echo(f"{_of(untimed, 'run')} without a step time: predicted, not scored")
    if failed:
        right = sum(not item.fits for item in failed)
        click.echo(f"{_of(len(failed), 'run')} that failed: {right} predicted out of memory")
    assumed = sum(bool(item.assumed) for item in judged)
    guessed = sum(_guessed(item.run) for item in judged)
    if assumed:
        profile = f"; the software profile of {guessed} of them is assumed" if guessed else ""
        of = _of(assumed, "run")
        click.echo(f"not all is printed of {of}: what was assumed stands in --json{profile}")
    whys: dict[str, list[str]] = {}
    for item in skipped:
        whys.setdefault(item.why, []).append(item.id)
    for why, names in sorted(whys.items(), key=lambda pair: -len(pair[1])):
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        click.echo(f"{_of(len(names), 'run')} left out: {why} ({', '.join(names[:3])}{more})")


def _of(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _print_rows(judged: Sequence[Judged]) -> None:
    timed = [item for item in judged if item.off is not None]
    timed.sort(key=lambda item: -abs(item.off or 0.0))
    rows = [
        [
            item.run.id,
            item.run.stack + " (assumed)" * _guessed(item.run),
            f"{item.run.measured_s:.3f}",
            f"{item.step_time_s:.3f}",
            f"{item.off:+.1%}",
        ]
        for item in timed
    ]
    common.print_table(["run", "stack", "measured s", "predicted s", "error"], rows)


def _print_fit(fitted: SiteFit) -> None:
    rows = [
        [name, f"{fitted.before[name]:.4g}", f"{value:.4g}"]
        for name, value in fitted.constants.items()
    ]
    common.print_table(["constant", "now", "fitted"], rows)
    click.echo(
        f"{fitted.runs} runs: {fitted.error_before:.1%} off now, {fitted.error_after:.1%} with a "
        "fit that has not seen the run"
    )
