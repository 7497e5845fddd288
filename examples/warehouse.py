"""Guard a release in a warehouse: Parquet files by month, read lazily by Polars and by DuckDB.

Two releases of a support bot answered the same tickets. An account writes many tickets, which are
alike, so the accounts are the clusters. The data are drawn here, with one thing to find: the new
release is better, but not at refunds.
"""

from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import frame_eval as fe

FOLDER = Path(__file__).parent / "out" / "tickets"
INTENTS = {"billing": 0.3, "login": 0.3, "shipping": 0.25, "refund": 0.15}

SOLVED = fe.rate("solved")
SECONDS = fe.mean("seconds", better="lower", bounds=(0, None))
ROLES = {"system": "release", "example": "ticket", "cluster": "account"}


def write_results(folder: Path, tickets: int = 12_000, accounts: int = 900) -> None:
    """Draw what became of every ticket at both releases: a folder with a file for each month."""
    rng = np.random.default_rng(7)
    account = rng.integers(0, accounts, tickets)
    intent = rng.choice(list(INTENTS), tickets, p=list(INTENTS.values()))
    asked = pl.DataFrame(
        {
            "ticket": np.arange(tickets),
            "account": account,
            "intent": intent,
            "month": rng.choice(["2025-01", "2025-02", "2025-03"], tickets),
        }
    )
    ease = rng.normal(0, 0.6, accounts)[account] + rng.normal(0, 1, tickets)
    gain = {"old": np.zeros(tickets), "new": np.where(intent == "refund", -0.4, 0.2)}
    results = pl.concat(
        asked.with_columns(
            release=pl.lit(release),
            solved=ease + more + rng.normal(0, 0.5, tickets) > -1,
            seconds=np.exp(rng.normal(1.0 - 0.1 * (release == "new"), 0.7, tickets)),
        )
        for release, more in gain.items()
    )
    for (month,), rows in results.partition_by("month", as_dict=True, include_key=False).items():
        path = folder / f"month={month}" / "rows.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows.write_parquet(path)


def read(folder: Path) -> fe.Evaluation:
    """Scan all months and say once which column plays which role."""
    return pl.scan_parquet(folder, hive_partitioning=True).eval.roles(**ROLES)


def compare(folder: Path) -> pl.DataFrame:
    """The new release less the old one, overall and in each month."""
    return read(folder).compare(SOLVED, SECONDS, baseline="old", by=fe.each("month"), overall=True)


def worst(folder: Path) -> pl.DataFrame:
    """The intents at which the new release is worst, of rows that DuckDB filters and adds up."""
    with duckdb.connect() as warehouse:
        rows = warehouse.read_parquet(f"{folder}/*/*.parquet").filter("release = 'new'")
        return fe.of(rows).worst(SOLVED, by="intent", cluster="account")


def check(folder: Path) -> pl.DataFrame:
    """The gate: no intent may lose two points, and nobody waits longer than now."""
    rules = [fe.rule(SOLVED, max_drop=0.02), fe.rule(SECONDS, max_rise=0.05, relative=True)]
    return read(folder).guard(*rules, baseline="old", by="intent")


def review(folder: Path) -> None:
    """Print the three answers, and what a build would say."""
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=120, fmt_str_lengths=80):
        print("Is the new release better?\n")
        columns = ["slice", "value", "metric", "difference", "ci_low", "ci_high", "p_adjusted"]
        print(compare(folder).select(columns))

        print("\nAt what is it worst? Limits hold for all intents at once:\n")
        columns = ["intent", "estimate", "ci_low", "ci_high", "rest", "p_adjusted", "rank_high"]
        print(worst(folder).select(columns))

        print("\nMay it ship?\n")
        verdicts = check(folder)
        print(verdicts.select("intent", "rule", "verdict"))
        try:
            verdicts.eval.assert_passed()
        except fe.GuardFailed as failed:
            print(f"GuardFailed: {failed}")


def main() -> None:
    """Write the results, then review them from the files."""
    print(__doc__)
    write_results(FOLDER)
    review(FOLDER)


if __name__ == "__main__":
    main()
