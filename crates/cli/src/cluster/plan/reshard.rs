//! Which slots of which nodes are taken when some are to move.

use super::super::slots::SlotSet;

/// Takes `count` slots from the sources, of each in proportion to how many it has, the lowest first. Gives
/// each slot with the number of its source; those of the source with most slots come first. Rounding may
/// leave it short of `count`, as in redis-cli.
pub fn table(sources: &[&SlotSet], count: usize) -> Vec<(usize, u16)> {
    let total: usize = sources.iter().map(|slots| slots.len()).sum();
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|source| std::cmp::Reverse(sources[*source].len()));
    let mut table = Vec::new();
    for (place, source) in order.into_iter().enumerate() {
        let share = count as f32 / total as f32 * sources[source].len() as f32;
        let share = if place == 0 { share.ceil() } else { share.floor() } as usize;
        let room = count - table.len();
        table.extend(sources[source].iter().take(share.min(room)).map(|slot| (source, slot)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(first: u16, last: u16) -> SlotSet {
        (first..=last).collect()
    }

    #[test]
    fn sources_give_in_proportion() {
        let (big, small) = (range(0, 99), range(200, 249));
        assert_eq!(table(&[&small, &big], 6), [(1, 0), (1, 1), (1, 2), (1, 3), (0, 200), (0, 201)]);
        assert_eq!(table(&[&small], 100).len(), 50);
        assert_eq!(table(&[], 5), []);
        assert_eq!(table(&[&SlotSet::new()], 5), []);
    }

    proptest! {
        #[test]
        fn no_slot_moves_twice_and_none_but_a_source_s(
            owners in prop::collection::vec(0usize..5, 200), count in 0usize..250
        ) {
            let mut sets = vec![SlotSet::new(); 5];
            owners.iter().enumerate().for_each(|(slot, owner)| sets[*owner].insert(slot as u16));
            let sources: Vec<&SlotSet> = sets[..4].iter().collect();
            let table = table(&sources, count);
            let moved: SlotSet = table.iter().map(|(_, slot)| *slot).collect();
            prop_assert_eq!(moved.len(), table.len());
            prop_assert!(table.iter().all(|(source, slot)| sources[*source].contains(*slot)));
            let total: usize = sources.iter().map(|slots| slots.len()).sum();
            prop_assert!(table.len() <= count);
            // Each source but the biggest may be rounded down by less than one.
            prop_assert!(table.len() + sources.len() > count.min(total));
        }
    }
}
