"""Every metric that has an oracle, by name."""

from oracles import classification, means, probability, scores

CATALOGUE = {**means.CASES, **classification.CASES, **scores.CASES, **probability.CASES}
