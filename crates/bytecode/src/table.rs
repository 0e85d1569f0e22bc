//! Lua's tables, with the layout of `ltable.c`: what scripts see of it, the order of `next` and the border
//! that `#` finds, is the same.
//!
//! Invariant: a table has been through the same steps as Lua's own: it grows when that would, to the size to
//! which that would.

use crate::stop::{Reason, Stop};
use crate::value::{Texts, Value, hash};

/// Cells that the tables of a run may have together, before it is left to Lua.
const CELLS_MAX: usize = 1 << 20;
/// Tables of a run that are kept for the next, and the cells of each.
const KEPT_TABLES_MAX: usize = 256;
const KEPT_CELLS_MAX: usize = 64;
/// Powers of two of an array's size.
const BITS_MAX: usize = 26;

/// A key with its hash, if it is a text.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Key {
    pub value: Value,
    pub hash: u32,
}

impl Key {
    /// A key whose hash is computed here.
    #[inline]
    pub fn new(value: Value, texts: &Texts<'_>) -> Key {
        let hash = if let Value::Text(text) = value { hash(texts.bytes(text)) } else { 0 };
        Key { value, hash }
    }

    fn number(number: f64) -> Key {
        Key { value: Value::Number(number), hash: 0 }
    }
}

#[derive(Copy, Clone, Debug)]
struct Node {
    key: Key,
    value: Value,
    /// The next node of the chain.
    next: Option<u32>,
}

const FREE: Node = Node { key: Key { value: Value::Nil, hash: 0 }, value: Value::Nil, next: None };

/// Where a key is.
#[derive(Copy, Clone, Debug)]
enum Place {
    Array(usize),
    Node(usize),
}

/// See the [module docs](self).
#[derive(Debug, Default)]
pub(crate) struct Table {
    array: Vec<Value>,
    /// None, or a power of two.
    nodes: Vec<Node>,
    /// All nodes from here on are in use.
    last_free: usize,
}

/// The index that a key is of the array part, if it could be of one: C's conversion to an int.
#[inline]
fn array_index(key: Value) -> Option<i32> {
    let Value::Number(number) = key else { return None };
    let index = to_int(number);
    (f64::from(index) == number).then_some(index)
}

/// x86's conversion of a double to an int.
#[inline]
pub(crate) fn to_int(number: f64) -> i32 {
    if number > -2_147_483_649.0 && number < 2_147_483_648.0 { number as i32 } else { i32::MIN }
}

/// The power of two that is no less.
fn ceil_log2(size: usize) -> usize {
    size.next_power_of_two().trailing_zeros() as usize
}

impl Table {
    #[inline]
    fn array_place(&self, index: i32) -> Option<usize> {
        let at = (index as u32).wrapping_sub(1) as usize;
        (at < self.array.len()).then_some(at)
    }

    /// The index of a key's node if nothing else were there. There are nodes.
    #[inline]
    fn main_position(&self, key: Key) -> Result<usize, Stop> {
        let size = self.nodes.len();
        let modulus = ((size - 1) | 1) as u32;
        Ok(match key.value {
            Value::Text(_) => key.hash as usize & (size - 1),
            Value::Number(0.0) => 0,
            Value::Number(number) => {
                let bits = number.to_bits();
                ((bits as u32).wrapping_add((bits >> 32) as u32) % modulus) as usize
            }
            Value::Boolean(value) => usize::from(value) & (size - 1),
            Value::Null => 0,
            // Their place follows from an address.
            _ => return Err(Stop::Leave(Reason::Key)),
        })
    }

    /// Where a key is that is no index of the array part.
    #[inline]
    fn find_node(&self, key: Key, texts: &Texts<'_>) -> Result<Option<usize>, Stop> {
        if self.nodes.is_empty() || key.value.is_nil() {
            return Ok(None);
        }
        let mut at = self.main_position(key)?;
        loop {
            let node = &self.nodes[at];
            if node.key.hash == key.hash && texts.are_same(node.key.value, key.value) {
                return Ok(Some(at));
            }
            match node.next {
                Some(next) => at = next as usize,
                None => return Ok(None),
            }
        }
    }

    #[inline]
    fn find(&self, key: Key, texts: &Texts<'_>) -> Result<Option<Place>, Stop> {
        if let Some(at) = array_index(key.value).and_then(|index| self.array_place(index)) {
            return Ok(Some(Place::Array(at)));
        }
        Ok(self.find_node(key, texts)?.map(Place::Node))
    }

    /// The value of a key; `nil` if there is none.
    #[inline]
    pub fn get(&self, key: Key, texts: &Texts<'_>) -> Result<Value, Stop> {
        Ok(match self.find(key, texts)? {
            Some(Place::Array(at)) => self.array[at],
            Some(Place::Node(at)) => self.nodes[at].value,
            None => Value::Nil,
        })
    }

    /// The value of an index.
    #[inline]
    pub fn get_index(&self, index: i32, texts: &Texts<'_>) -> Result<Value, Stop> {
        match self.array_place(index) {
            Some(at) => Ok(self.array[at]),
            None => self.get(Key::number(f64::from(index)), texts),
        }
    }

    /// The value of a name.
    pub fn get_name(&self, name: &[u8], texts: &Texts<'_>) -> Value {
        if self.nodes.is_empty() {
            return Value::Nil;
        }
        let hash = hash(name);
        let mut next = Some(hash as usize & (self.nodes.len() - 1));
        while let Some(at) = next {
            let node = &self.nodes[at];
            match node.key.value {
                Value::Text(text) if texts.bytes(text) == name => return node.value,
                _ => next = node.next.map(|next| next as usize),
            }
        }
        Value::Nil
    }

    /// Whether all that it has is in the array part.
    pub fn has_no_nodes(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The elements of the array part.
    pub fn array(&self) -> &[Value] {
        &self.array
    }

    /// Fills the array part of a table that has just been made.
    pub fn fill(&mut self, index: usize, value: Value) {
        if let Some(place) = self.array.get_mut(index) {
            *place = value;
        }
    }

    /// Sets the value of a key.
    #[inline]
    pub fn set(&mut self, key: Key, value: Value, texts: &Texts<'_>, cells: &mut usize) -> Result<(), Stop> {
        match self.find(key, texts)? {
            Some(Place::Array(at)) => self.array[at] = value,
            Some(Place::Node(at)) => self.nodes[at].value = value,
            None => {
                if key.value.is_nil() || matches!(key.value, Value::Number(number) if number.is_nan()) {
                    return Err(Stop::Leave(Reason::Key));
                }
                self.insert(key, value, texts, cells)?;
            }
        }
        Ok(())
    }

    /// Adds a key that is not there.
    fn insert(&mut self, key: Key, value: Value, texts: &Texts<'_>, cells: &mut usize) -> Result<(), Stop> {
        if self.nodes.is_empty() {
            return self.rehash(key, value, texts, cells);
        }
        let mut at = self.main_position(key)?;
        if !self.nodes[at].value.is_nil() {
            let Some(free) = self.free_position() else { return self.rehash(key, value, texts, cells) };
            let mut other = self.main_position(self.nodes[at].key)?;
            if other == at {
                self.nodes[free].next = self.nodes[at].next;
                self.nodes[at].next = Some(free as u32);
                at = free;
            } else {
                // The node there is not in its own main position: it moves.
                while let Some(next) = self.nodes[other].next
                    && next as usize != at
                {
                    other = next as usize;
                }
                self.nodes[other].next = Some(free as u32);
                self.nodes[free] = self.nodes[at];
                self.nodes[at].next = None;
            }
        }
        self.nodes[at].key = key;
        self.nodes[at].value = value;
        Ok(())
    }

    fn free_position(&mut self) -> Option<usize> {
        while self.last_free > 0 {
            self.last_free -= 1;
            if self.nodes[self.last_free].key.value.is_nil() {
                return Some(self.last_free);
            }
        }
        None
    }

    /// Gives both parts the sizes that suit all keys and a further one, and adds that one.
    #[cold]
    fn rehash(&mut self, key: Key, value: Value, texts: &Texts<'_>, cells: &mut usize) -> Result<(), Stop> {
        let mut counts = [0usize; BITS_MAX + 1];
        let mut count = |key: Value| match array_index(key) {
            Some(index) if index > 0 && index <= 1 << BITS_MAX => {
                counts[ceil_log2(index as usize)] += 1;
                1
            }
            _ => 0,
        };
        let (mut indexes, mut all) = (0, 1);
        for (at, value) in self.array.iter().enumerate() {
            if !value.is_nil() {
                indexes += count(Value::Number((at + 1) as f64));
                all += 1;
            }
        }
        for node in self.nodes.iter().filter(|node| !node.value.is_nil()) {
            indexes += count(node.key.value);
            all += 1;
        }
        indexes += count(key.value);
        let (size, in_array) = array_size(&counts, indexes);
        self.resize(size, all - in_array, texts, cells)?;
        self.set(key, value, texts, cells)
    }

    /// Makes room for an array of this size.
    pub fn resize_array(&mut self, size: usize, texts: &Texts<'_>, cells: &mut usize) -> Result<(), Stop> {
        self.resize(size, self.nodes.len(), texts, cells)
    }

    fn resize(
        &mut self,
        array: usize,
        nodes: usize,
        texts: &Texts<'_>,
        cells: &mut usize,
    ) -> Result<(), Stop> {
        let nodes = if nodes == 0 { 0 } else { 1 << ceil_log2(nodes) };
        *cells = cells.saturating_add(array + nodes);
        if *cells > CELLS_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        let old = std::mem::replace(&mut self.nodes, vec![FREE; nodes]);
        self.last_free = nodes;
        let cut = if array < self.array.len() { self.array.split_off(array) } else { Vec::new() };
        self.array.resize(array, Value::Nil);
        for (at, value) in cut.into_iter().enumerate().filter(|(_, value)| !value.is_nil()) {
            self.set(Key::number((array + at + 1) as f64), value, texts, cells)?;
        }
        for node in old.iter().rev().filter(|node| !node.value.is_nil()) {
            self.set(node.key, node.value, texts, cells)?;
        }
        Ok(())
    }

    /// The border that `#` finds.
    pub fn len(&self, texts: &Texts<'_>) -> Result<usize, Stop> {
        let is_nil = |index: usize| self.get_index(index as i32, texts).map(Value::is_nil);
        let size = self.array.len();
        let (mut low, mut high) = (0, size);
        if self.array.last().is_some_and(|last| last.is_nil()) {
            while high - low > 1 {
                let middle = (low + high) / 2;
                if self.array[middle - 1].is_nil() { high = middle } else { low = middle }
            }
            return Ok(low);
        }
        if self.nodes.is_empty() {
            return Ok(size);
        }
        low = size;
        high = size + 1;
        while !is_nil(high)? {
            low = high;
            high *= 2;
            if high > 1 << 30 {
                return Err(Stop::Leave(Reason::Memory));
            }
        }
        while high - low > 1 {
            let middle = (low + high) / 2;
            if is_nil(middle)? { high = middle } else { low = middle }
        }
        Ok(low)
    }

    /// The key and value behind a key, in the order of a walk; none at its end.
    #[inline]
    pub fn next(&self, key: Key, texts: &Texts<'_>) -> Result<Option<(Value, Value)>, Stop> {
        let after = match key.value {
            Value::Nil => 0,
            _ => match self.find(key, texts)? {
                Some(Place::Array(at)) => at + 1,
                Some(Place::Node(at)) => self.array.len() + at + 1,
                None => return Err(Stop::Leave(Reason::Key)),
            },
        };
        for (at, value) in self.array.iter().enumerate().skip(after) {
            if !value.is_nil() {
                return Ok(Some((Value::Number((at + 1) as f64), *value)));
            }
        }
        let nodes = self.nodes.iter().skip(after.saturating_sub(self.array.len()));
        let next = nodes.clone().find(|node| !node.value.is_nil());
        Ok(next.map(|node| (node.key.value, node.value)))
    }
}

/// The largest size of which more than half would be in use, and how many keys then are in the array.
fn array_size(counts: &[usize; BITS_MAX + 1], indexes: usize) -> (usize, usize) {
    let (mut size, mut within, mut sum) = (0, 0, 0);
    for (bits, count) in counts.iter().enumerate() {
        let power = 1usize << bits;
        if power / 2 >= indexes {
            break;
        }
        sum += count;
        if *count > 0 && sum > power / 2 {
            (size, within) = (power, sum);
        }
        if sum == indexes {
            break;
        }
    }
    (size, within)
}

/// The tables of a run.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Those in use, and others behind them for later.
    all: Vec<Table>,
    live: usize,
    /// Cells that the run has allocated.
    pub cells: usize,
}

impl Tables {
    /// Makes a table of such sizes; its number.
    #[inline]
    pub fn add(&mut self, array: usize, nodes: usize) -> Result<u32, Stop> {
        let number = self.live;
        // A table costs something without cells, too.
        self.cells += 4;
        if self.cells > CELLS_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        if self.all.len() == number {
            self.all.push(Table::default());
        }
        self.live += 1;
        if array > 0 || nodes > 0 {
            self.size(number, array, nodes)?;
        }
        Ok(number as u32)
    }

    fn size(&mut self, number: usize, array: usize, nodes: usize) -> Result<(), Stop> {
        let nodes = if nodes == 0 { 0 } else { 1 << ceil_log2(nodes) };
        self.cells = self.cells.saturating_add(array + nodes);
        if self.cells > CELLS_MAX {
            return Err(Stop::Leave(Reason::Memory));
        }
        let table = &mut self.all[number];
        table.array.resize(array, Value::Nil);
        table.nodes.resize(nodes, FREE);
        table.last_free = nodes;
        Ok(())
    }

    #[inline]
    pub fn at(&self, number: u32) -> &Table {
        &self.all[number as usize]
    }

    #[inline]
    pub fn at_mut(&mut self, number: u32) -> (&mut Table, &mut usize) {
        (&mut self.all[number as usize], &mut self.cells)
    }

    /// Forgets the tables of a run, and keeps some of their memory.
    pub fn clear(&mut self) {
        for table in &mut self.all[..self.live] {
            table.array.clear();
            table.nodes.clear();
            table.last_free = 0;
            if table.array.capacity() > KEPT_CELLS_MAX || table.nodes.capacity() > KEPT_CELLS_MAX {
                *table = Table::default();
            }
        }
        self.all.truncate(KEPT_TABLES_MAX);
        (self.live, self.cells) = (0, 0);
    }
}
