"""Our own statistics against scipy, which is a test's dependency only, and against published tables."""

import math
import random
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stormcell.judge import significance, statistics

T = TypeVar("T")


def there(found: T | None) -> T:
    assert found is not None
    return found


few = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=7)
counts = st.integers(1, 40).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total)))


@given(counts)
def test_wilson_is_scipys(pair):
    good, total = pair
    found = statistics.wilson(good, total)
    wanted = stats.binomtest(good, total).proportion_ci(method="wilson")
    assert found == pytest.approx((wanted.low, wanted.high), abs=1e-9)


def test_wilson_of_nothing_is_none():
    assert statistics.wilson(0, 0) is None
    assert statistics.newcombe(0, 0, 1, 2) is None


@pytest.mark.parametrize(
    ("table", "interval"),
    [
        # Newcombe (1998), Interval estimation for the difference between independent proportions, table II, method 10
        ((56, 70, 48, 80), (0.0524, 0.3339)),
        ((9, 10, 3, 10), (0.1705, 0.8090)),
        ((5, 56, 0, 29), (-0.0381, 0.1926)),
        ((0, 10, 0, 20), (-0.1611, 0.2775)),
        ((10, 10, 0, 10), (0.6075, 1.0000)),
    ],
)
def test_newcombe_is_the_published_one(table, interval):
    assert statistics.newcombe(*table) == pytest.approx(interval, abs=5e-5)


def test_a_bootstrap_is_scipys_up_to_the_draw():
    rng = random.Random(4)
    values = [rng.lognormvariate(0, 1) for _ in range(60)]
    wanted = stats.bootstrap(
        (values,), lambda x, axis: x.mean(axis=axis), n_resamples=20_000, method="percentile", rng=1
    ).confidence_interval
    found = statistics.bootstrap([values], statistics.mean, rounds=20_000)
    width = wanted.high - wanted.low
    assert found == pytest.approx((wanted.low, wanted.high), abs=0.03 * width)


def test_a_bootstrap_interval_holds_the_truth_about_as_often_as_it_says():
    rng = random.Random(7)
    inside = 0
    for number in range(200):
        values = [rng.expovariate(1) for _ in range(40)]
        low, high = there(statistics.bootstrap([values], statistics.quantile_of(50), seed=number, rounds=400))
        inside += low <= math.log(2) <= high
    assert 180 <= inside <= 200


def test_runs_are_drawn_whole():
    """Ten alike values of each of eight runs are eight values, not eighty."""
    rng = random.Random(1)
    runs = [[rng.gauss(100, 10)] * 10 for _ in range(8)]
    by_run = there(statistics.bootstrap(runs, statistics.mean))
    as_if = there(statistics.bootstrap([[value for run in runs for value in run]], statistics.mean))
    assert by_run[1] - by_run[0] > 2 * (as_if[1] - as_if[0])


def test_a_bootstrap_is_the_same_for_the_same_seed_and_none_of_nothing():
    runs = [[1.0, 2.0, 5.0], [3.0]]
    one = statistics.bootstrap(runs, statistics.quantile_of(95), seed=3)
    assert one == statistics.bootstrap(runs, statistics.quantile_of(95), seed=3)
    assert statistics.bootstrap([[], []], statistics.mean) is None
    assert statistics.bootstrap_difference([[1.0]], [[]], statistics.mean) is None


@given(st.lists(few, min_size=1, max_size=4), st.integers(0, 9))
def test_several_quantiles_at_once_are_what_each_is_alone(runs, seed):
    together = statistics.bootstrap_quantiles(runs, (50, 95), seed=seed, rounds=50)
    assert together == [statistics.bootstrap(runs, statistics.quantile_of(q), seed=seed, rounds=50) for q in (50, 95)]
    assert statistics.bootstrap_quantiles([[]], (50,)) == [None]


def test_the_difference_of_two_sides_has_an_interval():
    rng = random.Random(2)
    slow = [rng.gauss(150, 10) for _ in range(50)]
    fast = [rng.gauss(100, 10) for _ in range(50)]
    low, high = there(statistics.bootstrap_difference([slow], [fast], statistics.quantile_of(50)))
    assert 35 < low < 50 < high < 65


@given(few, few)
def test_mann_whitney_is_scipys_exact_permutation_with_ties(values, others):
    def rank_sum(one, two):
        return stats.mannwhitneyu(one, two, method="asymptotic").statistic

    found = there(significance.mann_whitney(values, others))
    u = rank_sum(values, others)
    assert found.exact and found.above == pytest.approx(u / (len(values) * len(others)))
    if len(set(values + others)) == len(values + others):
        assert found.p == pytest.approx(stats.mannwhitneyu(values, others, method="exact").pvalue)
    elif len(values) > 1 and len(others) > 1 and math.comb(len(values) + len(others), len(values)) <= 300:
        exact = stats.permutation_test((values, others), rank_sum, n_resamples=math.inf, vectorized=False)
        assert found.p == pytest.approx(exact.pvalue)


@pytest.mark.parametrize("ties", [False, True])
def test_mann_whitney_of_many_is_scipys_approximation(ties):
    rng = random.Random(5)
    shape = round if ties else float
    values = [float(shape(rng.gauss(10, 3))) for _ in range(45)]
    others = [float(shape(rng.gauss(12, 3))) for _ in range(30)]
    found = there(significance.mann_whitney(values, others))
    assert not found.exact
    assert found.p == pytest.approx(stats.mannwhitneyu(values, others, method="asymptotic").pvalue)


def test_mann_whitney_of_nothing_and_of_all_alike():
    assert significance.mann_whitney([], [1.0]) is None
    assert there(significance.mann_whitney([1.0] * 30, [1.0] * 30)).p == 1.0
    assert there(significance.mann_whitney([1.0] * 3, [1.0] * 3)).p == 1.0


@given(counts, counts)
def test_fisher_is_scipys(one, other):
    found = significance.fisher(*one, *other)
    table = [[one[0], one[1] - one[0]], [other[0], other[1] - other[0]]]
    assert found == pytest.approx(stats.fisher_exact(table).pvalue, rel=1e-6)


def test_fisher_of_the_tea_is_the_published_one():
    """Fisher (1935): 3 of 4 cups told apart, p = 34/70 two-sided."""
    assert significance.fisher(3, 4, 1, 4) == pytest.approx(34 / 70)
    assert significance.fisher(0, 0, 1, 4) is None


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_monotone_never_below_the_plain_p_nor_above_bonferroni(chances):
    found = significance.holm(chances)
    for plain, corrected in zip(chances, found, strict=True):
        assert plain <= corrected <= min(1.0, plain * len(chances)) + 1e-12
    by_plain = [corrected for _, corrected in sorted(zip(chances, found, strict=True))]
    assert by_plain == sorted(by_plain)


def test_holm_is_the_published_one():
    """R's p.adjust(c(0.01, 0.02, 0.03, 0.04), "holm"), and unordered."""
    assert significance.holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert significance.holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


@given(st.integers(1, 8), st.integers(1, 8))
def test_no_test_finds_less_than_the_least_p(n, m):
    least = significance.least_p(n, m)
    apart = there(significance.mann_whitney([float(i) for i in range(n)], [float(100 + i) for i in range(m)]))
    assert apart.p == pytest.approx(least)
    assert significance.least_p(0, 5) == 1.0
