//! How a new cluster's slots and replicas are spread over its nodes.

use martlet_base::slot::SLOT_COUNT;

/// The affinity of a replica that shares its primary's host; of one that shares another replica's, it is 1.
pub const WITH_PRIMARY: usize = 10_000;
/// How often an exchange is tried, for each node.
const TRIES_PER_NODE: usize = 500;

/// A step of the plan, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adding {
    Replica {
        replica: usize,
        primary: usize,
    },
    /// From here on primaries get more replicas than asked for.
    Extra,
}

/// A plan. Nodes are numbers: where they stand in the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Each primary, and its first and last slot.
    pub primaries: Vec<(usize, (u16, u16))>,
    pub additions: Vec<Adding>,
    /// Of each node: whose replica it is.
    pub primary_of: Vec<Option<usize>>,
}

/// Nodes that stand in for each other on one host.
struct Shared {
    /// The first replica among them.
    first: usize,
    affinity: usize,
}

/// Plans a cluster with `replicas` replicas of each primary; `hosts` has each node's host. Nodes that are
/// left over become further replicas.
pub fn spread(hosts: &[&str], replicas: usize) -> Spread {
    let mut order = interleaved(hosts);
    let mut free = order.split_off((hosts.len() / (replicas + 1)).min(hosts.len()));
    if !free.is_empty() {
        free.rotate_left(1);
    }
    let primaries: Vec<(usize, (u16, u16))> = order.iter().copied().zip(ranges(order.len())).collect();
    let mut plan = Spread { primaries, additions: Vec::new(), primary_of: vec![None; hosts.len()] };
    for (primary, _) in plan.primaries.clone() {
        for _ in 0..replicas {
            plan.add_replica(hosts, &mut free, primary);
        }
    }
    if !free.is_empty() && !plan.primaries.is_empty() {
        plan.additions.push(Adding::Extra);
    }
    while !free.is_empty() && !plan.primaries.is_empty() {
        for (primary, _) in plan.primaries.clone() {
            plan.add_replica(hosts, &mut free, primary);
        }
    }
    plan
}

/// The nodes, one of each host in turn.
fn interleaved(hosts: &[&str]) -> Vec<usize> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (node, host) in hosts.iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| known == host) {
            Some((_, nodes)) => nodes.push(node),
            None => groups.push((host, vec![node])),
        }
    }
    let rounds = groups.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
    (0..rounds)
        .flat_map(|round| groups.iter().filter_map(move |(_, nodes)| nodes.get(round).copied()))
        .collect()
}

/// All slots in `count` ranges of nearly one length; the bounds are redis-cli's, which counts in single
/// precision.
fn ranges(count: usize) -> Vec<(u16, u16)> {
    let each = SLOT_COUNT as f32 / count as f32;
    let (mut first, mut cursor) = (0, 0f32);
    (0..count)
        .map(|index| {
            let end = f64::from(cursor + each - 1.0).round() as usize;
            let is_last = index == count - 1 || end > SLOT_COUNT;
            let last = if is_last { SLOT_COUNT - 1 } else { end.max(first) };
            let range = (first as u16, last as u16);
            (first, cursor) = (last + 1, cursor + each);
            range
        })
        .collect()
}

impl Spread {
    /// Takes the first free node of another host than the primary's; else the first.
    fn add_replica(&mut self, hosts: &[&str], free: &mut Vec<usize>, primary: usize) {
        if free.is_empty() {
            return;
        }
        let elsewhere = free.iter().position(|node| hosts[*node] != hosts[primary]);
        let replica = free.remove(elsewhere.unwrap_or(0));
        self.primary_of[replica] = Some(primary);
        self.additions.push(Adding::Replica { replica, primary });
    }

    /// Nodes that stand in for each other on one host, if they are several.
    fn shared(&self, hosts: &[&str]) -> Vec<Shared> {
        let stands_for = |node: usize| self.primary_of[node].unwrap_or(node);
        let mut places: Vec<(&str, usize, bool, usize)> = (0..hosts.len())
            .map(|node| (hosts[node], stands_for(node), self.primary_of[node].is_some(), node))
            .collect();
        places.sort_unstable();
        places
            .chunk_by(|one, other| (one.0, one.1) == (other.0, other.1))
            .filter(|places| places.len() > 1)
            .filter_map(|places| {
                let replicas = places.iter().filter(|(_, _, is_replica, _)| *is_replica);
                let (_, _, _, first) = *replicas.clone().next()?;
                let count = replicas.count();
                let has_primary = count < places.len();
                Some(Shared { first, affinity: if has_primary { WITH_PRIMARY * count } else { count } })
            })
            .collect()
    }

    /// How badly nodes that stand in for each other share hosts; 0 if none do.
    pub fn affinity(&self, hosts: &[&str]) -> usize {
        self.shared(hosts).iter().map(|shared| shared.affinity).sum()
    }

    /// Exchanges replicas at random while that does not make it worse; gives the affinity that is left.
    /// `below` draws a number below its argument.
    pub fn optimize(&mut self, hosts: &[&str], mut below: impl FnMut(usize) -> usize) -> usize {
        let mut affinity = self.affinity(hosts);
        for _ in 0..TRIES_PER_NODE * hosts.len() {
            let shared = self.shared(hosts);
            if shared.is_empty() {
                break;
            }
            let one = shared[below(shared.len())].first;
            let others: Vec<usize> =
                (0..hosts.len()).filter(|node| *node != one && self.primary_of[*node].is_some()).collect();
            if others.is_empty() {
                break;
            }
            let other = others[below(others.len())];
            self.primary_of.swap(one, other);
            let exchanged = self.affinity(hosts);
            if exchanged > affinity {
                self.primary_of.swap(one, other);
            } else {
                affinity = exchanged;
            }
        }
        affinity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use martlet_base::random::Random;
    use proptest::prelude::*;

    #[test]
    fn six_on_one_host() {
        let plan = spread(&["h"; 6], 1);
        assert_eq!(plan.primaries, [(0, (0, 5460)), (1, (5461, 10922)), (2, (10923, 16383))]);
        // What redis-cli says of the same six.
        let added = |replica, primary| Adding::Replica { replica, primary };
        assert_eq!(plan.additions, [added(4, 0), added(5, 1), added(3, 2)]);
        assert_eq!(plan.affinity(&["h"; 6]), 3 * WITH_PRIMARY);
    }

    #[test]
    fn hosts_take_turns_and_replicas_are_elsewhere() {
        let hosts = ["a", "a", "b", "b", "c", "c"];
        let plan = spread(&hosts, 1);
        assert_eq!(plan.primaries.iter().map(|(node, _)| *node).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(plan.affinity(&hosts), 0);
        assert!(plan.primary_of.iter().enumerate().all(|(n, p)| p.is_none_or(|p| hosts[p] != hosts[n])));
    }

    #[test]
    fn what_is_left_over_is_a_further_replica() {
        let plan = spread(&["h"; 8], 1);
        assert_eq!(plan.primaries.len(), 4);
        let plan = spread(&["h"; 11], 2);
        assert!(plan.additions.contains(&Adding::Extra));
        assert_eq!(plan.primary_of.iter().flatten().count(), 8);
    }

    proptest! {
        #[test]
        fn every_slot_has_one_primary_and_every_node_one_part(
            places in prop::collection::vec(0usize..5, 3..16), replicas in 0usize..4, seed: u64
        ) {
            let names = ["a", "b", "c", "d", "e"];
            let hosts: Vec<&str> = places.iter().map(|place| names[*place]).collect();
            let mut plan = spread(&hosts, replicas);
            let count = hosts.len() / (replicas + 1);
            prop_assert_eq!(plan.primaries.len(), count);
            let mut next = 0;
            for (_, (first, last)) in &plan.primaries {
                prop_assert_eq!(usize::from(*first), next);
                prop_assert!(first <= last);
                let len = usize::from(last - first) + 1;
                prop_assert!(len.abs_diff(SLOT_COUNT / count) <= 1);
                next = usize::from(*last) + 1;
            }
            prop_assert!(count == 0 || next == SLOT_COUNT);
            let is_primary = |node: usize| plan.primaries.iter().any(|(primary, _)| *primary == node);
            if count > 0 {
                for (node, primary) in plan.primary_of.iter().enumerate() {
                    prop_assert_eq!(primary.is_none(), is_primary(node));
                    prop_assert!(primary.is_none_or(is_primary));
                }
            }
            let replicas_of = |plan: &Spread| {
                let mut of: Vec<usize> = plan.primary_of.iter().flatten().copied().collect();
                of.sort_unstable();
                of
            };
            let (before, of) = (plan.affinity(&hosts), replicas_of(&plan));
            let mut random = Random::seeded(seed);
            let after = plan.optimize(&hosts, |bound| random.below(bound as u64) as usize);
            prop_assert!(after <= before && after == plan.affinity(&hosts));
            prop_assert_eq!(replicas_of(&plan), of);
        }
    }
}
