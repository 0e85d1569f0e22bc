//! The network: reachability and delays.

use martlet_base::random::Random;

/// A node: Sentinels first, then servers, then clients.
pub(super) type Node = usize;

/// See the [module docs](self).
pub(super) struct Net {
    pub now_ms: i64,
    pub random: Random,
    pub max_delay_ms: u64,
    /// The side of a partition that each node is on, and the time until which it stands still.
    pub sides: Vec<u8>,
    pub paused_ms: Vec<i64>,
    /// The first server.
    pub servers: Node,
    /// The first client.
    pub clients: Node,
}

impl Net {
    /// Arrival time of a message that is sent now.
    pub fn arrival_ms(&mut self) -> i64 {
        self.now_ms + 1 + self.random.below(self.max_delay_ms) as i64
    }

    /// Whether two nodes are on one side.
    pub fn reaches(&self, from: Node, to: Node) -> bool {
        self.sides[from] == self.sides[to]
    }

    /// Whether a node stands still.
    pub fn is_paused(&self, node: Node) -> bool {
        self.paused_ms[node] > self.now_ms
    }

    /// One of `count`, or none that is as likely as each.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.random.below(count) == 0
    }

    /// An unused replication id.
    pub fn new_id(&mut self) -> String {
        format!("{:024x}{:016x}", self.random.next_u64(), self.random.next_u64())
    }
}
