//! A thread's connections, each at its place.
//!
//! Invariant: a token names one connection for ever: a place that is used again has another generation. A
//! connection is taken out to be worked on, so that the worker can be changed in that time, and put back.

use martlet_net::Token;

use crate::connection::Connection;

/// See the [module docs](self).
#[derive(Default)]
pub(crate) struct Connections {
    places: Vec<Option<Box<Connection>>>,
    generations: Vec<u32>,
    free: Vec<u32>,
}

impl Connections {
    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len()
    }

    /// Those that are not taken out.
    pub fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().flatten().map(|connection| &**connection)
    }

    /// The connection at the place of `token`, whose generation the caller knows to be right, or does not
    /// mind.
    #[inline]
    pub fn at_place_of(&self, token: Token) -> Option<&Connection> {
        self.places.get(token.index())?.as_deref()
    }

    /// Takes the connection out, if it still is the one that the token names.
    #[inline]
    pub fn take(&mut self, token: Token) -> Option<Box<Connection>> {
        let place = self.places.get_mut(token.index())?;
        if place.as_ref()?.token != token {
            return None;
        }
        place.take()
    }

    /// Puts a connection to its place: a new one, or one that was taken out.
    #[inline]
    pub fn put(&mut self, connection: Box<Connection>) {
        let index = connection.token.index();
        self.places[index] = Some(connection);
    }

    /// A place for a connection.
    pub fn reserve(&mut self) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.generations.push(0);
            self.places.len() as u32 - 1
        });
        self.generations[index as usize] += 1;
        Token::new(index, self.generations[index as usize])
    }

    /// Gives a place back.
    pub fn release(&mut self, token: Token) {
        self.places[token.index()] = None;
        self.free.push(token.index() as u32);
    }
}

#[cfg(test)]
impl Connections {
    /// The one at the last place.
    pub fn last_mut(&mut self) -> Option<&mut Connection> {
        self.places.last_mut()?.as_deref_mut()
    }
}
