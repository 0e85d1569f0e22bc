//! How near to each other terms stand, by their positions.

use super::plan::Order;

/// Whether positions, one list for each term that has any, satisfy `order`, as RediSearch judges it.
pub fn is_near(lists: &[Vec<u32>], order: Order) -> bool {
    if lists.is_empty() {
        return true;
    }
    let slop = order.slop.map_or(i64::from(i32::MAX), i64::from);
    if order.in_order { stands_in_order(lists, slop) } else { stands_together(lists, slop) }
}

/// Looks for one position of each list, none before that of the list before, with at most `slop` others
/// between.
fn stands_in_order(lists: &[Vec<u32>], slop: i64) -> bool {
    let mut places = vec![0usize; lists.len()];
    let mut begun = false;
    loop {
        let mut between = 0;
        let mut last = 0;
        for (at, list) in lists.iter().enumerate() {
            let place = &mut places[at];
            if at == 0 && begun {
                *place += 1;
            }
            begun = true;
            while list.get(*place).is_some_and(|&position| i64::from(position) < last) {
                *place += 1;
            }
            let Some(&position) = list.get(*place) else { return false };
            if at > 0 {
                between += i64::from(position) - last - 1;
                if between > slop {
                    break;
                }
            }
            last = i64::from(position);
        }
        if between <= slop {
            return true;
        }
    }
}

/// Looks for one position of each list in any order, with at most `slop` others between.
fn stands_together(lists: &[Vec<u32>], slop: i64) -> bool {
    let mut places = vec![0usize; lists.len()];
    let mut positions: Vec<i64> = Vec::with_capacity(lists.len());
    for list in lists {
        let Some(&position) = list.first() else { return false };
        positions.push(i64::from(position));
    }
    let mut max = positions.iter().copied().max().unwrap_or(0);
    loop {
        let Some((at, &min)) = positions.iter().enumerate().min_by_key(|&(_, &position)| position) else {
            return true;
        };
        if min != max && max - min - (lists.len() as i64 - 1) <= slop {
            return true;
        }
        places[at] += 1;
        let Some(&next) = lists[at].get(places[at]) else { return false };
        positions[at] = i64::from(next);
        max = max.max(positions[at]);
    }
}

/// By what TFIDF and BM25 divide a document's score: the root, without its fraction, of the sum of the
/// squares of the distances between the terms of each child and those of the next one. `children` have
/// positions if they are of a kind that has, even if none is kept of them; such a child counts as one before
/// the first position.
pub fn distance(children: &[Option<Vec<u32>>]) -> u32 {
    if children.len() <= 1 {
        return 1;
    }
    let mut with_places = children.iter().flatten().peekable();
    let mut sum = 0u64;
    while let (Some(first), Some(second)) = (with_places.next(), with_places.peek()) {
        let least = least_distance(first, second);
        sum = sum.saturating_add(least.saturating_mul(least));
    }
    if sum == 0 { children.len() as u32 - 1 } else { sum.isqrt() as u32 }
}

/// The least distance of two positions; looked for until it is 1 or less.
fn least_distance(first: &[u32], second: &[u32]) -> u64 {
    let at = |list: &[u32], place: usize| list.get(place).map(|&position| i64::from(position));
    let (mut a, mut b) = (0, 0);
    let mut least = at(first, 0).unwrap_or(-1).abs_diff(at(second, 0).unwrap_or(-1));
    while least > 1
        && let (Some(one), Some(two)) = (at(first, a), at(second, b))
    {
        least = least.min(one.abs_diff(two));
        if two > one { a += 1 } else { b += 1 }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(lists: &[&[u32]], slop: u32, in_order: bool) -> bool {
        let lists: Vec<Vec<u32>> = lists.iter().map(|list| list.to_vec()).collect();
        is_near(&lists, Order { slop: Some(slop), in_order })
    }

    #[test]
    fn phrases_and_slop() {
        assert!(near(&[&[1, 9], &[10]], 0, true));
        assert!(!near(&[&[1, 8], &[10]], 0, true));
        assert!(near(&[&[1, 8], &[10]], 1, true));
        assert!(!near(&[&[10], &[9]], 5, true));
        assert!(near(&[&[10], &[9]], 0, false));
        assert!(near(&[&[1, 20], &[5, 21], &[22]], 0, true));
        assert!(!near(&[&[1], &[5], &[9]], 5, false));
        assert!(near(&[&[1], &[5], &[9]], 6, false));
        assert!(is_near(&[vec![3], vec![900]], Order { slop: None, in_order: true }));
        assert!(!is_near(&[vec![3], vec![2]], Order { slop: None, in_order: true }));
    }

    #[test]
    fn distances() {
        let of = |lists: &[Option<&[u32]>]| {
            distance(&lists.iter().map(|list| list.map(<[u32]>::to_vec)).collect::<Vec<_>>())
        };
        assert_eq!(of(&[Some(&[1])]), 1);
        assert_eq!(of(&[Some(&[1]), Some(&[5])]), 4);
        assert_eq!(of(&[None, Some(&[4])]), 1);
        assert_eq!(of(&[None, None, Some(&[4])]), 2);
        assert_eq!(of(&[Some(&[4]), Some(&[4])]), 1);
        assert_eq!(of(&[Some(&[]), Some(&[6])]), 7);
        assert_eq!(of(&[Some(&[]), Some(&[]), Some(&[6])]), 7);
        assert_eq!(of(&[Some(&[1, 7]), Some(&[6]), Some(&[10])]), 4, "the root of 17");
    }
}
