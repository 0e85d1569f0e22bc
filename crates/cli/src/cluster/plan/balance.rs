//! Which nodes give slots to which, so that all have what their weight says.

use martlet_base::slot::SLOT_COUNT;

/// A primary that takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// How many slots it has.
    pub slots: usize,
    pub weight: f32,
}

/// A plan. Nodes are numbers: where they stand in the list of shares.
#[derive(Clone, Debug, PartialEq)]
pub struct Balance {
    /// From those that get most to those that give most: the node, and how many slots it has too many.
    pub excess: Vec<(usize, i64)>,
    pub moves: Vec<Move>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub from: usize,
    pub to: usize,
    pub count: usize,
}

/// Plans; `None` if no node is off by more than the threshold. Numbers are of single precision, and so
/// rounded as redis-cli's.
pub fn balance(shares: &[Share], threshold_percent: f32) -> Option<Balance> {
    let total: f32 = shares.iter().map(|share| share.weight).sum();
    let expected = |share: &Share| (SLOT_COUNT as f32 / total * share.weight) as i64;
    let is_off = |share: &Share| {
        if share.slots == 0 {
            return expected(share) > 1;
        }
        let off = 100.0 - 100.0 * expected(share) as f64 / share.slots as f64;
        off.abs() as f32 > threshold_percent
    };
    if threshold_percent <= 0.0 || !shares.iter().any(is_off) {
        return None;
    }
    let excess = shares.iter().enumerate().map(|(node, share)| (node, share.slots as i64 - expected(share)));
    let mut excess: Vec<(usize, i64)> = excess.collect();
    settle(&mut excess);
    excess.sort_by_key(|(_, excess)| *excess);
    let moves = moves(excess.clone());
    Some(Balance { excess, moves })
}

/// Expected numbers are rounded down: what all have too many is to be taken by those that give none.
fn settle(excess: &mut [(usize, i64)]) {
    let mut rest: i64 = excess.iter().map(|(_, excess)| *excess).sum();
    while rest > 0 && excess.iter().any(|(_, excess)| *excess <= 0) {
        for (_, excess) in excess.iter_mut() {
            if *excess <= 0 && rest > 0 {
                *excess -= 1;
                rest -= 1;
            }
        }
    }
}

/// The node with the largest excess gives to the node with the largest lack, until one of the two is right.
fn moves(mut excess: Vec<(usize, i64)>) -> Vec<Move> {
    let mut moves = Vec::new();
    let (mut to, mut from) = (0, excess.len().saturating_sub(1));
    while to < from && excess[to].1 < 0 && excess[from].1 > 0 {
        let count = (-excess[to].1).min(excess[from].1);
        moves.push(Move { from: excess[from].0, to: excess[to].0, count: count as usize });
        excess[to].1 += count;
        excess[from].1 -= count;
        to += usize::from(excess[to].1 == 0);
        from -= usize::from(excess[from].1 == 0);
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(slots: &[(usize, f32)]) -> Vec<Share> {
        slots.iter().map(|(slots, weight)| Share { slots: *slots, weight: *weight }).collect()
    }

    #[test]
    fn an_empty_node_gets_its_part_of_each() {
        let even = shares(&[(5461, 1.0), (5462, 1.0), (5461, 1.0), (0, 1.0)]);
        let plan = balance(&even, 2.0).expect("off");
        assert_eq!(plan.excess, [(3, -4096), (0, 1365), (2, 1365), (1, 1366)]);
        let moved = |from, count| Move { from, to: 3, count };
        assert_eq!(plan.moves, [moved(1, 1366), moved(2, 1365), moved(0, 1365)]);
    }

    #[test]
    fn who_is_near_enough_is_left_alone() {
        let near = shares(&[(5461, 1.0), (5462, 1.0), (5461, 1.0)]);
        assert_eq!(balance(&near, 2.0), None);
        let off = shares(&[(5600, 1.0), (5392, 1.0), (5392, 1.0)]);
        assert!(balance(&off, 2.0).is_some());
        assert_eq!(balance(&off, 5.0), None);
        assert_eq!(balance(&off, 0.0), None);
        assert_eq!(balance(&[], 2.0), None);
    }

    #[test]
    fn a_weight_of_zero_empties() {
        let plan = balance(&shares(&[(8192, 0.0), (8192, 1.0)]), 2.0).expect("off");
        assert_eq!(plan.moves, [Move { from: 0, to: 1, count: 8192 }]);
    }

    proptest! {
        #[test]
        fn all_have_what_their_weight_says_and_nobody_gives_and_gets(
            cuts in prop::collection::vec(0usize..=SLOT_COUNT, 1..12),
            weights in prop::collection::vec(1u8..20, 13)
        ) {
            let mut cuts = [vec![0, SLOT_COUNT], cuts].concat();
            cuts.sort_unstable();
            let shares: Vec<Share> = cuts
                .windows(2)
                .zip(&weights)
                .map(|(pair, weight)| Share { slots: pair[1] - pair[0], weight: f32::from(*weight) })
                .collect();
            let Some(plan) = balance(&shares, 2.0) else { return Ok(()) };
            let mut slots: Vec<i64> = shares.iter().map(|share| share.slots as i64).collect();
            for moved in &plan.moves {
                prop_assert!(moved.count > 0 && moved.from != moved.to);
                slots[moved.from] -= moved.count as i64;
                slots[moved.to] += moved.count as i64;
            }
            prop_assert_eq!(slots.iter().sum::<i64>(), SLOT_COUNT as i64);
            let gives = |node: usize| plan.moves.iter().any(|moved| moved.from == node);
            prop_assert!(plan.moves.iter().all(|moved| !gives(moved.to)));
            let total: f64 = shares.iter().map(|share| f64::from(share.weight)).sum();
            for (share, slots) in shares.iter().zip(&slots) {
                let expected = SLOT_COUNT as f64 / total * f64::from(share.weight);
                // Rounding leaves up to one for each node, and those may meet at one of them.
                prop_assert!((*slots as f64 - expected).abs() <= shares.len() as f64 + 1.0);
            }
        }
    }
}
