//! What tests do to a node: they close its connections, and have it not hear packets.

use super::commands::{CommandError, refuse};
use super::links::LinkId;
use super::{Cluster, Time};
use crate::packet::Kind;

/// Packets of every kind, in place of one's number.
const EVERY_KIND: i64 = -2;

/// Which connections with another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The one that this node has made.
    To,
    /// The one that the other has made.
    From,
    /// Both.
    Both,
}

/// Packets that the test drops.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drops {
    /// A kind's number, -2 for every kind; `None` for nothing.
    kind: Option<i64>,
    closes_link: bool,
}

impl Drops {
    pub(super) fn has(self, kind: Kind) -> bool {
        self.kind.is_some_and(|dropped| dropped == EVERY_KIND || dropped == kind as i64)
    }

    pub(super) fn closes_link(self) -> bool {
        self.closes_link
    }
}

impl Cluster {
    /// Closes connections with a node.
    ///
    /// # Errors
    /// When there is no such node, or it is this one.
    pub fn kill_links(
        &mut self,
        now: Time,
        id: &[u8],
        direction: Option<Direction>,
    ) -> Result<(), CommandError> {
        let Some(key) = self.find(id) else {
            return refuse(format!("Unknown node {}", String::from_utf8_lossy(id)));
        };
        if key == self.myself {
            return refuse("Cannot free cluster link(s) to myself");
        }
        self.now = now;
        let node = &self.table[key];
        let (to, from): (Option<LinkId>, Option<LinkId>) = match direction {
            Some(Direction::To) => (node.link, None),
            Some(Direction::From) => (None, node.inbound),
            Some(Direction::Both) => (node.link, node.inbound),
            None => (None, None),
        };
        to.into_iter().chain(from).for_each(|link| self.close_link(link));
        self.finish();
        Ok(())
    }

    /// Has packets of a kind's number not heard: -1 for none, -2 for every kind.
    pub fn drop_packets(&mut self, kind: i64) {
        self.drops.kind = (kind != -1).then_some(kind);
    }

    /// Has the connection closed by which a packet came that is not heard.
    pub fn close_on_drop(&mut self, closes_link: bool) {
        self.drops.closes_link = closes_link;
    }
}
