"""Compare three models by an LLM judge, ask whether people agree with it, and plan the next round.

Every answer is judged four times, questions come from documents, and three people label a part of
the answers: repeats are trials, documents are clusters, and labels depend on each other that share
an answer or a person. The data are drawn here: "large" is better than "base", "tuned" is not, and
the judge is right nine times in ten.
"""

import numpy as np
import polars as pl

import frame_eval as fe

QUALITY = {"base": 0.0, "tuned": 0.0, "large": 0.7}
DOCUMENTS, QUESTIONS, TRIALS, LABELLED = 60, 360, 4, 120

GOOD = fe.rate("good")
ROLES = {"system": "model", "example": "question", "trial": "trial", "cluster": "document"}


def draw() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Verdicts of the judge, a row per model, question and trial; and labels, a row per person."""
    rng = np.random.default_rng(11)
    question = np.arange(QUESTIONS)
    document = question % DOCUMENTS
    ease = 0.5 + rng.normal(0, 0.5, DOCUMENTS)[document] + rng.normal(0, 1, QUESTIONS)
    verdicts, labels = [], []
    for model, quality in QUALITY.items():
        truly = ease + quality + rng.normal(0, 0.8, QUESTIONS) > 0
        asked = pl.DataFrame({"question": question, "document": document})
        asked = asked.with_columns(model=pl.lit(model))
        judged = [truly ^ (rng.random(QUESTIONS) < 0.1) for _ in range(TRIALS)]
        verdicts += [asked.with_columns(trial=t, good=good) for t, good in enumerate(judged)]
        for person, slip in {"Ada": 0.05, "Ben": 0.1, "Cem": 0.15}.items():
            label = truly ^ (rng.random(QUESTIONS) < slip)
            rows = asked.with_columns(person=pl.lit(person), label=label, judge=judged[0])
            labels.append(rows.head(LABELLED))
    return pl.concat(verdicts), pl.concat(labels)


def scores(verdicts: pl.DataFrame) -> pl.DataFrame:
    """How often each model is judged good, and what documents do to the error."""
    return verdicts.eval.roles(**ROLES).summary(GOOD, details=True)


def compare(verdicts: pl.DataFrame) -> pl.DataFrame:
    """All pairs of models on the same questions, with intervals that hold for all of them."""
    return verdicts.eval.roles(**ROLES).compare(GOOD, simultaneous=True)


def agreement(labels: pl.DataFrame) -> pl.DataFrame:
    """How often people agree with the judge; an answer and a person are each a cluster."""
    metrics = fe.accuracy("label", "judge"), fe.cohen_kappa("label", "judge")
    answers = labels.with_columns(answer=pl.format("{}-{}", "model", "question"))
    return answers.eval.summary(*metrics, cluster=fe.crossed("answer", "person"))


def plan(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Questions to ask to see a difference of 3 points, with one trial of each and with four."""
    pair = verdicts.filter(pl.col("model") != "large")
    return pair.eval.roles(**ROLES).plan(GOOD, effect=0.03, trials=[1, 4], baseline="base")


def main() -> None:
    """Print the four answers."""
    print(__doc__)
    verdicts, labels = draw()
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=120, fmt_str_lengths=80):
        print("How good are they?\n")
        columns = ["model", "estimate", "ci_low", "ci_high", "n", "clusters", "design_effect"]
        print(scores(verdicts).select(columns))

        print("\nIs one better than another?\n")
        columns = ["system", "baseline", "difference", "ci_low", "ci_high", "p_adjusted"]
        print(compare(verdicts).select(columns))

        print("\nDo people agree with the judge?\n")
        print(agreement(labels).select("metric", "estimate", "ci_low", "ci_high", "method"))

        print("\nHow many questions would show 3 points between two models like base and tuned?\n")
        print(plan(verdicts).select("trials", "n", "power", "design_effect", "trial_share"))


if __name__ == "__main__":
    main()
