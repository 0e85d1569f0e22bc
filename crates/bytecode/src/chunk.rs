//! Compiled chunks of Lua 5.1, as `lua_dump` writes them on this machine.
//!
//! Invariant: reading needs no trust in the bytes. [`crate::translate`] checks the instructions.

/// A constant of a prototype.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// `nil`
    Nil,
    /// A boolean.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A string's bytes.
    String(Vec<u8>),
}

/// A compiled function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prototype {
    /// Number of upvalues.
    pub upvalues: u8,
    /// Number of named parameters.
    pub parameters: u8,
    /// Lua's bits about `...`: 1 the parameters have it, 2 calls may pass more, 4 it is wanted as `arg`.
    pub vararg: u8,
    /// Registers that the code uses.
    pub max_stack: u8,
    /// Instructions.
    pub code: Vec<u32>,
    /// Constants.
    pub constants: Vec<Constant>,
    /// Functions within this one.
    pub prototypes: Vec<Prototype>,
    /// The line of each instruction.
    pub lines: Vec<u32>,
}

/// Functions nest no deeper than Lua's parser allows.
const NESTED_MAX: usize = 200;

/// The first bytes of a chunk of this machine: signature, version 5.1, official format, little-endian, the
/// sizes of `int`, `size_t`, an instruction and a number, which is no integer.
const HEADER: [u8; 12] = [0x1b, b'L', b'u', b'a', 0x51, 0, 1, 4, 8, 4, 8, 0];

struct Reader<'c>(&'c [u8]);

impl<'c> Reader<'c> {
    fn take(&mut self, len: usize) -> Option<&'c [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn int(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn number(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A string without the zero behind it; `None` within for an absent one.
    fn string(&mut self) -> Option<Option<&'c [u8]>> {
        let len = u64::from_le_bytes(self.take(8)?.try_into().ok()?);
        let Some(len) = len.checked_sub(1) else { return Some(None) };
        let bytes = self.take(usize::try_from(len).ok()?)?;
        self.byte()?;
        Some(Some(bytes))
    }

    /// A list, which begins with its length. Each item has at least `item_bytes`.
    fn list<T>(&mut self, item_bytes: usize, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.int()? as usize;
        if len.checked_mul(item_bytes)? > self.0.len() {
            return None;
        }
        (0..len).map(|_| read(self)).collect()
    }

    fn constant(&mut self) -> Option<Constant> {
        Some(match self.byte()? {
            0 => Constant::Nil,
            1 => Constant::Boolean(self.byte()? != 0),
            3 => Constant::Number(self.number()?),
            4 => Constant::String(self.string()??.to_vec()),
            _ => return None,
        })
    }

    fn prototype(&mut self, depth: usize) -> Option<Prototype> {
        if depth > NESTED_MAX {
            return None;
        }
        // Its source, the lines where it begins and ends.
        self.string()?;
        self.take(8)?;
        let mut read = Prototype {
            upvalues: self.byte()?,
            parameters: self.byte()?,
            vararg: self.byte()?,
            max_stack: self.byte()?,
            ..Prototype::default()
        };
        read.code = self.list(4, Reader::int)?;
        read.constants = self.list(1, Reader::constant)?;
        read.prototypes = self.list(20, |reader| reader.prototype(depth + 1))?;
        read.lines = self.list(4, Reader::int)?;
        self.list(16, |reader| reader.string().and_then(|_| reader.take(8)).map(drop))?;
        self.list(8, |reader| reader.string().map(drop))?;
        Some(read)
    }
}

/// Reads a chunk; `None` if it is not one of this machine.
pub fn read(chunk: &[u8]) -> Option<Prototype> {
    let mut reader = Reader(chunk.strip_prefix(&HEADER)?);
    let main = reader.prototype(0)?;
    reader.0.is_empty().then_some(main)
}
