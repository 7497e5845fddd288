import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from statsmodels.stats.multitest import multipletests

from frame_eval.errors import EvalError
from frame_eval.inference.adjust import METHODS, adjust, adjust_families

STATSMODELS = {"holm": "holm", "bh": "fdr_bh", "by": "fdr_by", "bonferroni": "bonferroni"}

# Few distinct values, so that ties occur.
p_values = st.floats(0, 1) | st.sampled_from([0, 1e-300, 0.01, 0.05, 0.5, 1])
families = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        arrays(float, n, elements=p_values),
        arrays(int, n, elements=st.sampled_from([-1, 0, 3, 1000])),
        arrays(bool, n),
        arrays(bool, n),
    )
)


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None)
@given(p=arrays(float, st.integers(1, 60), elements=p_values))
def test_statsmodels(method, p):
    want = multipletests(p, method=STATSMODELS[method])[1]
    # Below 1e-300 numbers have fewer digits.
    assert_allclose(adjust(p, method), want, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("method", ["bh", "by"])
def test_scipy(method):
    p = np.random.default_rng(1).beta(0.3, 2, 1000)
    assert_allclose(adjust(p, method), stats.false_discovery_control(p, method=method), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None)
@given(family=families)
def test_families_are_adjusted_on_their_own(method, family):
    p, codes, lost, marked = family
    p = np.where(lost, np.nan, p)
    got = adjust_families(p, codes, method, marked)
    for code in np.unique(codes):
        mine = codes == code
        assert_array_equal(got[mine], adjust(p[mine], method, marked[mine]))


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None)
@given(family=families)
def test_a_marked_nan_counts_as_one_and_stays_nan(method, family):
    p, _, lost, marked = family
    got = adjust(np.where(lost, np.nan, p), method, marked)
    assert_array_equal(np.isnan(got), lost)
    member = ~lost | marked
    want = adjust(np.where(lost, 1, p)[member], method)
    assert_array_equal(got[~lost], want[~lost[member]])


def test_an_unmarked_nan_leaves_the_family():
    p = np.array([0.01, np.nan, 0.04])
    assert_allclose(adjust(p, "bonferroni"), [0.02, np.nan, 0.08])
    assert_allclose(adjust(p, "bonferroni", np.isnan(p)), [0.03, np.nan, 0.12])


def test_a_mark_on_a_p_value_that_exists_changes_nothing():
    p = [0.01, 0.02]
    assert_array_equal(adjust(p, "holm", [True, True]), adjust(p, "holm"))


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None)
@given(p=arrays(float, st.integers(1, 60), elements=p_values), seed=st.integers(0, 1000))
def test_properties(method, p, seed):
    before = p.copy()
    got = adjust(p, method)
    assert_array_equal(p, before)
    assert np.all((got >= p) & (got <= 1))
    order = np.argsort(p, kind="stable")
    assert np.all(np.diff(got[order]) >= 0)
    shuffled = np.random.default_rng(seed).permutation(len(p))
    assert_array_equal(adjust(p[shuffled], method), got[shuffled])


@settings(deadline=None)
@given(p=arrays(float, st.integers(1, 60), elements=p_values))
def test_strict_methods_give_larger_values(p):
    bonferroni, holm, bh, by = (adjust(p, m) for m in ("bonferroni", "holm", "bh", "by"))
    slack = 1 + 1e-12
    assert np.all(holm <= bonferroni * slack)
    assert np.all(bh <= holm * slack)
    assert np.all(bh <= by * slack)


@pytest.mark.parametrize("method", [*METHODS, None])
def test_nothing_in_nothing_out(method):
    assert adjust([], method).shape == (0,)
    assert np.isnan(adjust([np.nan, np.nan], method, [True, False])).all()
    assert adjust([0.3], method) == 0.3


def test_no_method_leaves_the_values():
    p = np.array([0.01, np.nan, 0.04])
    assert_array_equal(adjust(p, None), p)
    assert adjust(p, None) is not p


def test_an_unknown_method_is_named():
    with pytest.raises(EvalError, match=r"'holmes' is unknown\. Did you mean 'holm'"):
        adjust([0.1], "holmes")


def test_many_families_at_once():
    rng = np.random.default_rng(2)
    p, code = rng.uniform(size=50_000), rng.integers(0, 20_000, 50_000)
    got = adjust_families(p, code, "holm")
    for some in (0, 777, 19_999):
        mine = code == some
        assert_array_equal(got[mine], adjust(p[mine], "holm"))


@pytest.mark.parametrize(("name", "method"), [("holm-adjusted", "holm"), ("bh-adjusted", "bh")])
def test_seed_adjusted(seeds, name, method):
    row = seeds[name]
    got = adjust(row["input"]["p"], method)
    assert_allclose(got, row["expected"], atol=row["tolerance"], rtol=0)


def test_seed_reject_counts(seeds):
    row = seeds["reject-counts"]
    p, alpha = row["input"]["p"], row["input"]["alpha"]
    counts = [int((adjust(p, m) <= alpha).sum()) for m in (None, "bonferroni", "holm", "bh")]
    assert counts == row["expected"]


def test_seed_thresholds_adjust_to_alpha(seeds):
    holm = seeds["holm-thresholds-40"]
    p = np.append(holm["expected"], np.ones(37))
    assert_allclose(adjust(p, "holm")[:3], holm["input"]["alpha"], rtol=1e-9)
    bonferroni = seeds["bonferroni-40"]
    p = np.append(bonferroni["expected"][0], np.ones(39))
    assert_allclose(adjust(p, "bonferroni")[0], bonferroni["input"]["alpha"], rtol=1e-9)
