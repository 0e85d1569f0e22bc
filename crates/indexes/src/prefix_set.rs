//! A set of prefixes, of which one name begins with at most one.

/// See the [module docs](self).
#[derive(Debug)]
pub(crate) struct PrefixSet(
    /// Ascending; none begins with another.
    Vec<Box<[u8]>>,
);

impl PrefixSet {
    /// The set of these prefixes: the shorter of two that begin alike stands for both.
    pub(crate) fn of(prefixes: &[Box<[u8]>]) -> PrefixSet {
        let mut sorted: Vec<&Box<[u8]>> = prefixes.iter().collect();
        sorted.sort_unstable();
        let mut set: Vec<Box<[u8]>> = Vec::with_capacity(sorted.len());
        for prefix in sorted {
            if !set.last().is_some_and(|last| prefix.starts_with(last)) {
                set.push(prefix.clone());
            }
        }
        PrefixSet(set)
    }

    /// Whether a name begins with one of them.
    pub(crate) fn covers(&self, name: &[u8]) -> bool {
        // A prefix between the name's own and the name would begin with the name's own.
        let behind = self.0.partition_point(|prefix| **prefix <= *name);
        behind.checked_sub(1).and_then(|at| self.0.get(at)).is_some_and(|prefix| name.starts_with(prefix))
    }

    /// The prefixes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|prefix| &**prefix)
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;

    fn text(random: &mut Random, most: u64) -> Vec<u8> {
        (0..random.below(most)).map(|_| b'a' + random.below(3) as u8).collect()
    }

    #[test]
    fn names_are_covered_as_by_each_prefix_alone() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for _ in 0..500 {
            let least = random.below(2) as usize;
            let prefixes: Vec<Box<[u8]>> = (0..random.below(8))
                .map(|_| text(&mut random, 5))
                .filter(|prefix| prefix.len() >= least)
                .map(Into::into)
                .collect();
            let set = PrefixSet::of(&prefixes);
            for _ in 0..50 {
                let name = text(&mut random, 7);
                let wanted = prefixes.iter().any(|prefix| name.starts_with(prefix));
                assert_eq!(set.covers(&name), wanted, "{prefixes:?} {name:?}");
                assert!(set.iter().filter(|prefix| name.starts_with(prefix)).count() <= 1);
            }
        }
    }
}
