//! The order in which centroids are merged.
//!
//! RedisBloom sorts by mean with a quicksort that is not stable. Centroids of equal means and different
//! weights merge differently in another order, so if there are any, [`quicksort`] makes the same exchanges.
//! Otherwise every sort gives the same order, and a faster one is used.
//!
//! RedisBloom's quicksort is quadratic, and recurses deeply, if one mean is there many times. Here a pivot
//! that is the range's lowest value costs its three exchanges and no search. Other quadratic inputs exhaust a
//! budget: the rest is sorted by a stable sort then, no longer in RedisBloom's order.

/// Comparisons, beside `n log n`, after which the order is no longer RedisBloom's.
const BUDGET: usize = 1 << 19;

/// Sorts centroids by mean. The first `merged` are most likely sorted.
pub(super) fn sort(means: &mut [f64], weights: &mut [i64], merged: usize) {
    if !sort_distinct(means, weights, merged) {
        quicksort(means, weights);
    }
}

/// A number in whose order doubles are ascending; NaN is at the ends.
#[inline]
fn key(mean: f64) -> i64 {
    let bits = mean.to_bits() as i64;
    bits ^ (bits >> 63 & i64::MAX)
}

/// Sorts the values that were appended and merges them with the others, unless the result depends on the
/// sort: whether it does not. Otherwise nothing has changed.
fn sort_distinct(means: &mut [f64], weights: &mut [i64], merged: usize) -> bool {
    let (old_means, new_means) = means.split_at(merged);
    let (old_weights, new_weights) = weights.split_at(merged);
    if !old_means.is_sorted() || new_means.iter().any(|mean| mean.is_nan()) {
        return false;
    }
    let mut added: Vec<(i64, i64)> =
        new_means.iter().map(|mean| key(*mean)).zip(new_weights.iter().copied()).collect();
    added.sort_unstable_by_key(|(key, _)| *key);
    let mut sorted: Vec<(f64, i64)> = Vec::with_capacity(means.len());
    let mut old = old_means.iter().copied().zip(old_weights.iter().copied()).peekable();
    let mut added = added.into_iter().map(|(key, weight)| (mean_of(key), weight)).peekable();
    loop {
        let node = match (old.peek(), added.peek()) {
            (Some(left), Some(right)) if left.0 < right.0 => old.next(),
            (_, Some(_)) => added.next(),
            (_, None) => old.next(),
        };
        let Some(node) = node else { break };
        let equal = |last: &(f64, i64)| last.0 == node.0 && (last.1 != node.1 || key(last.0) != key(node.0));
        if sorted.last().is_some_and(equal) {
            return false;
        }
        sorted.push(node);
    }
    for ((mean, weight), node) in means.iter_mut().zip(weights).zip(sorted) {
        (*mean, *weight) = node;
    }
    true
}

/// The double of a [`key`].
#[inline]
fn mean_of(key: i64) -> f64 {
    f64::from_bits((key ^ (key >> 63 & i64::MAX)) as u64)
}

/// A range that waits to be sorted: from the first to the last index, and the range's lowest mean and how
/// often it is there, if that is known.
struct Waiting {
    start: usize,
    end: usize,
    lowest: Option<(f64, usize)>,
}

/// See the [module docs](self).
fn quicksort(means: &mut [f64], weights: &mut [i64]) {
    let Some(last) = means.len().checked_sub(1) else { return };
    let mut budget = BUDGET + 16 * means.len() * means.len().ilog2() as usize;
    let mut waiting = vec![Waiting { start: 0, end: last, lowest: None }];
    while let Some(Waiting { mut start, end, mut lowest }) = waiting.pop() {
        while start < end {
            if end - start == 1 {
                if means[start] > means[end] {
                    exchange(means, weights, start, end);
                }
                break;
            }
            let middle = (start + end) / 2;
            if let Some((mean, count)) = lowest.filter(|(mean, _)| *mean == means[middle]) {
                exchange(means, weights, middle, end);
                exchange(means, weights, start, end);
                lowest = (count > 1).then_some((mean, count - 1));
                start += 1;
                continue;
            }
            let cost = 2 * (end - start);
            if budget < cost {
                sort_stable(&mut means[start..=end], &mut weights[start..=end]);
                break;
            }
            budget -= cost;
            let pivot = partition(means, weights, start, middle, end);
            if pivot == start {
                let mean = means[pivot];
                let count = means[start + 1..=end].iter().filter(|other| **other == mean).count();
                lowest = (count > 0).then_some((mean, count));
            } else {
                // What equals the lowest mean is below the pivot.
                waiting.push(Waiting { start, end: pivot - 1, lowest });
                lowest = None;
            }
            start = pivot + 1;
        }
    }
}

fn exchange(means: &mut [f64], weights: &mut [i64], left: usize, right: usize) {
    means.swap(left, right);
    weights.swap(left, right);
}

/// Puts the means below the middle one before it; returns the index of that one.
fn partition(means: &mut [f64], weights: &mut [i64], start: usize, middle: usize, end: usize) -> usize {
    let pivot = means[middle];
    exchange(means, weights, middle, end);
    let mut lower = start;
    for at in start..end {
        if means[at] < pivot {
            exchange(means, weights, lower, at);
            lower += 1;
        }
    }
    exchange(means, weights, lower, end);
    lower
}

fn sort_stable(means: &mut [f64], weights: &mut [i64]) {
    let mut nodes: Vec<(f64, i64)> = means.iter().copied().zip(weights.iter().copied()).collect();
    nodes.sort_by(|left, right| left.0.total_cmp(&right.0));
    for ((mean, weight), node) in means.iter_mut().zip(weights).zip(nodes) {
        (*mean, *weight) = node;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;

    /// RedisBloom's sort as it is described: recursive, a search for every pivot.
    fn plain(means: &mut [f64], weights: &mut [i64]) {
        match means.len() {
            0 | 1 => {}
            2 => {
                if means[0] > means[1] {
                    exchange(means, weights, 0, 1);
                }
            }
            len => {
                let pivot = partition(means, weights, 0, (len - 1) / 2, len - 1);
                plain(&mut means[..pivot], &mut weights[..pivot]);
                plain(&mut means[pivot + 1..], &mut weights[pivot + 1..]);
            }
        }
    }

    #[test]
    fn exchanges_are_those_of_the_plain_quicksort() {
        let seed = 5;
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for round in 0..3000 {
            let len = random.below(70) as usize;
            let distinct = 1 + random.below(1 + round % 40);
            let means: Vec<f64> = (0..len).map(|_| random.below(distinct) as f64 - 3.0).collect();
            let means: Vec<f64> =
                means.iter().map(|mean| if random.below(9) == 0 { -mean } else { *mean }).collect();
            let weights: Vec<i64> = (0..len).map(|_| 1 + random.below(3) as i64).collect();
            let merged = random.below(len as u64 + 1) as usize;
            let (mut expected, mut sorted) = ((means.clone(), weights.clone()), (means, weights));
            // The middle of a range is taken between absolute indexes, which a slice at an odd offset shifts.
            whole(&mut expected.0, &mut expected.1);
            sort(&mut sorted.0, &mut sorted.1, merged);
            let bits = |means: &[f64]| means.iter().map(|mean| mean.to_bits()).collect::<Vec<_>>();
            assert_eq!((bits(&sorted.0), &sorted.1), (bits(&expected.0), &expected.1), "round {round}");
        }
    }

    /// [`plain`] with indexes of the whole array.
    fn whole(means: &mut [f64], weights: &mut [i64]) {
        fn range(means: &mut [f64], weights: &mut [i64], start: usize, end: usize) {
            if start >= end {
                return;
            }
            if end - start == 1 {
                return plain(&mut means[start..=end], &mut weights[start..=end]);
            }
            let pivot = partition(means, weights, start, (start + end) / 2, end);
            if pivot > start {
                range(means, weights, start, pivot - 1);
            }
            range(means, weights, pivot + 1, end);
        }
        if !means.is_empty() {
            range(means, weights, 0, means.len() - 1);
        }
    }

    #[test]
    fn equal_means_are_not_quadratic() {
        let len = 2_000_000;
        let mut means = vec![1.5; len];
        means[7] = 2.5;
        let mut weights: Vec<i64> = (0..len as i64).collect();
        quicksort(&mut means, &mut weights);
        assert!(means.is_sorted());
        weights.sort_unstable();
        assert!(weights.into_iter().eq(0..len as i64));
    }
}
