//! From a pattern to its program, in one pass.

use super::{Assertion, Bytes, Invalid, Step, bracket};

/// Repetitions that braces can ask for.
const COUNT_MAX: i32 = 255;

#[derive(Clone, Copy)]
struct Flags {
    nocase: bool,
    /// `.` is any byte but a newline.
    newline: bool,
    /// Everything up to `\E` stands for itself.
    literal: bool,
}

/// An open group, or the part behind `(?i)` up to the end of its group.
struct Frame {
    /// Where its code begins.
    start: usize,
    /// Where the code of its last alternative begins.
    branch: usize,
    /// The jumps from the ends of alternatives to the group's end.
    jumps: Vec<usize>,
    /// The flags outside.
    flags: Flags,
}

struct Parser<'a> {
    pattern: &'a [u8],
    at: usize,
    code: Vec<Step>,
    frames: Vec<Frame>,
    flags: Flags,
    /// Parentheses that are open: not each frame has its own.
    depth: usize,
    groups: usize,
    back_reference: Option<usize>,
    steps_max: usize,
}

/// The program of a pattern, of `steps_max` steps at most, and whether there are back references in it.
pub(super) fn compile(pattern: &[u8], nocase: bool, steps_max: usize) -> Result<(Vec<Step>, bool), Invalid> {
    let flags = Flags { nocase, newline: false, literal: false };
    let mut parser = Parser {
        pattern,
        at: 0,
        code: Vec::new(),
        frames: vec![Frame { start: 0, branch: 0, jumps: Vec::new(), flags }],
        flags,
        depth: 0,
        groups: 0,
        back_reference: None,
        steps_max,
    };
    parser.run()?;
    if parser.depth > 0 {
        return Err(Invalid::Parenthesis);
    }
    if parser.back_reference.is_some_and(|group| group > parser.groups) {
        return Err(Invalid::Reference);
    }
    parser.code.push(Step::Match);
    Ok((parser.code, parser.back_reference.is_some()))
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        self.pattern.get(self.at..).unwrap_or(&[])
    }

    fn run(&mut self) -> Result<(), Invalid> {
        loop {
            let piece = self.code.len();
            let closed = match self.rest() {
                [] => break,
                [b'\\', b'E', ..] if self.flags.literal => {
                    self.flags.literal = false;
                    self.at += 2;
                    continue;
                }
                [byte, ..] if self.flags.literal => {
                    let byte = *byte;
                    self.at += 1;
                    self.literal(byte)?;
                    continue;
                }
                [b'|', ..] => {
                    self.at += 1;
                    self.end_alternative()?;
                    continue;
                }
                [b')', ..] if self.depth > 0 => {
                    self.at += 1;
                    self.depth -= 1;
                    Some(self.close()?)
                }
                [b'(', ..] => {
                    self.open()?;
                    continue;
                }
                // The repeated part is empty.
                [b'*' | b'+' | b'?' | b'{', ..] => None,
                _ => {
                    self.atom()?;
                    None
                }
            };
            if !self.flags.literal {
                self.postfix(closed.unwrap_or(piece))?;
            }
        }
        while !self.frames.is_empty() {
            self.close()?;
        }
        Ok(())
    }

    fn push(&mut self, step: Step) -> Result<(), Invalid> {
        self.room(1)?;
        self.code.push(step);
        Ok(())
    }

    fn room(&self, steps: usize) -> Result<(), Invalid> {
        if self.code.len().saturating_add(steps) < self.steps_max { Ok(()) } else { Err(Invalid::TooLarge) }
    }

    /// A byte that stands for itself.
    fn literal(&mut self, byte: u8) -> Result<(), Invalid> {
        let mut bytes = Bytes::default();
        bytes.insert(byte);
        if self.flags.nocase {
            bracket::fold(&mut bytes);
        }
        self.push(Step::Any(bytes))
    }

    /// A byte in just this case.
    fn exact(&mut self, byte: Option<u8>) -> Result<(), Invalid> {
        let mut bytes = Bytes::default();
        byte.into_iter().for_each(|byte| bytes.insert(byte));
        self.push(Step::Any(bytes))
    }

    fn open_frame(&mut self, flags: Flags) {
        let start = self.code.len();
        self.frames.push(Frame { start, branch: start, jumps: Vec::new(), flags: self.flags });
        self.flags = flags;
    }

    /// At an opening parenthesis.
    fn open(&mut self) -> Result<(), Invalid> {
        self.at += 1;
        if self.rest().first() != Some(&b'?') {
            self.depth += 1;
            self.groups += 1;
            self.open_frame(self.flags);
            return Ok(());
        }
        self.at += 1;
        let (mut flags, mut on) = (self.flags, true);
        loop {
            let byte = *self.rest().first().ok_or(Invalid::Pattern)?;
            self.at += 1;
            match byte {
                b'i' => flags.nocase = on,
                b'n' => flags.newline = on,
                // The choice among several matches has no effect here.
                b'r' | b'U' => {}
                b'-' => on = false,
                b':' => {
                    self.depth += 1;
                    break;
                }
                b'#' => {
                    let len = self.rest().iter().position(|byte| *byte == b')').ok_or(Invalid::Pattern)?;
                    self.at += len + 1;
                    break;
                }
                b')' => break,
                _ => return Err(Invalid::Pattern),
            }
        }
        self.open_frame(flags);
        Ok(())
    }

    /// Makes the last alternative one that a branch leads to.
    fn end_alternative(&mut self) -> Result<(), Invalid> {
        self.room(2)?;
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let len = (self.code.len() - frame.branch) as i32;
        self.code.insert(frame.branch, Step::Branch(len + 2));
        frame.jumps.push(self.code.len());
        self.code.push(Step::Jump(0));
        frame.branch = self.code.len();
        Ok(())
    }

    /// Ends the innermost frame: where its code begins.
    fn close(&mut self) -> Result<usize, Invalid> {
        let Some(frame) = self.frames.pop() else { return Ok(self.code.len()) };
        let end = self.code.len();
        for jump in frame.jumps {
            self.code[jump] = Step::Jump((end - jump) as i32);
        }
        self.flags = frame.flags;
        Ok(frame.start)
    }

    fn atom(&mut self) -> Result<(), Invalid> {
        let Some(&byte) = self.rest().first() else { return Ok(()) };
        self.at += 1;
        match byte {
            b'[' => {
                let (bytes, len) = bracket::parse(self.rest(), self.flags.nocase)?;
                self.at += len;
                self.push(Step::Any(bytes))
            }
            b'.' => {
                let mut bytes = Bytes::ALL;
                if self.flags.newline {
                    bytes.remove(b'\n');
                }
                self.push(Step::Any(bytes))
            }
            b'^' => self.push(Step::Assert(Assertion::Start)),
            b'$' => self.push(Step::Assert(Assertion::End)),
            b'\\' => self.escape(),
            _ => self.literal(byte),
        }
    }

    /// The part behind a backslash.
    fn escape(&mut self) -> Result<(), Invalid> {
        let byte = *self.rest().first().ok_or(Invalid::Escape)?;
        self.at += 1;
        let class = |name: &[u8]| bracket::class(name).unwrap_or_default();
        let mut word = class(b"alnum");
        word.insert(b'_');
        match byte {
            b't' => self.exact(Some(b'\t')),
            b'n' => self.exact(Some(b'\n')),
            b'r' => self.exact(Some(b'\r')),
            b'f' => self.exact(Some(0x0c)),
            b'a' => self.exact(Some(0x07)),
            b'e' => self.exact(Some(0x1b)),
            b'w' => self.push(Step::Any(word)),
            b'W' => self.push(Step::Any(word.complement())),
            b's' => self.push(Step::Any(class(b"space"))),
            b'S' => self.push(Step::Any(class(b"space").complement())),
            b'd' => self.push(Step::Any(class(b"digit"))),
            b'D' => self.push(Step::Any(class(b"digit").complement())),
            b'b' => self.push(Step::Assert(Assertion::WordEdge)),
            b'B' => self.push(Step::Assert(Assertion::InsideOrOutside)),
            b'<' => self.push(Step::Assert(Assertion::WordStart)),
            b'>' => self.push(Step::Assert(Assertion::WordEnd)),
            b'Q' => {
                self.flags.literal = true;
                Ok(())
            }
            b'x' => self.hexadecimal(),
            b'0'..=b'9' => {
                self.back_reference = self.back_reference.max(Some(usize::from(byte - b'0')));
                self.exact(None)
            }
            _ => self.exact(Some(byte)),
        }
    }

    /// The byte behind `\x`: up to two digits, or up to eight in braces; none is 0, and one above 255 none.
    fn hexadecimal(&mut self) -> Result<(), Invalid> {
        let value = |digits: &[u8]| {
            digits
                .iter()
                .fold(0_u32, |value, digit| value << 4 | char::from(*digit).to_digit(16).unwrap_or(0))
        };
        let (value, len) = match self.rest() {
            [b'{', rest @ ..] => {
                let len = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
                if len > 8 || rest.get(len) != Some(&b'}') {
                    return Err(Invalid::Brace);
                }
                (value(&rest[..len]), len + 2)
            }
            rest => {
                let len = rest.iter().take(2).take_while(|byte| byte.is_ascii_hexdigit()).count();
                (value(&rest[..len]), len)
            }
        };
        self.at += len;
        self.exact(u8::try_from(value).ok())
    }

    /// What says how often the code from `piece` on is repeated.
    fn postfix(&mut self, piece: usize) -> Result<(), Invalid> {
        loop {
            let (min, max, braces) = match self.rest() {
                [b'*', ..] => (0, None, false),
                [b'+', ..] => (1, None, false),
                [b'?', ..] => (0, Some(1), false),
                [b'{', ..] => {
                    self.at += 1;
                    let (min, max) = self.bound()?;
                    (min, max, true)
                }
                _ => return Ok(()),
            };
            self.at += usize::from(!braces);
            match self.rest() {
                // The choice among several matches has no effect here.
                [b'?', ..] => self.at += 1,
                [b'*' | b'+', ..] => return Err(Invalid::Repetition),
                _ => {}
            }
            self.repeat(piece, min, max)?;
        }
    }

    fn number(&mut self) -> Option<i32> {
        let len = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = &self.rest()[..len];
        let add = |sum: i32, digit: &u8| sum.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
        let number = (len > 0).then(|| digits.iter().fold(0, add));
        self.at += len;
        number
    }

    /// What braces say: how often at least, and at most.
    fn bound(&mut self) -> Result<(usize, Option<usize>), Invalid> {
        let begin = self.at;
        let mut min = self.number();
        let mut max = min;
        if self.rest().first() == Some(&b',') {
            self.at += 1;
            min = min.or(Some(0));
            max = self.number();
        }
        if max.is_some_and(|max| min.is_some_and(|min| min > max)) {
            return Err(Invalid::Bound);
        }
        if min.max(max).is_some_and(|count| count > COUNT_MAX) {
            return Err(Invalid::Count);
        }
        while let [b',' | b' ', _, ..] = self.rest() {
            self.at += 1;
        }
        match self.rest() {
            [] => Err(Invalid::Brace),
            [b'}', ..] if self.at > begin => {
                self.at += 1;
                // Nothing but commas and blanks asks for one.
                Ok(match min {
                    Some(min) => (min as usize, max.map(|max| max as usize)),
                    None => (1, Some(1)),
                })
            }
            _ => Err(Invalid::Bound),
        }
    }

    /// Repeats the code from `piece` on.
    fn repeat(&mut self, piece: usize, min: usize, max: Option<usize>) -> Result<(), Invalid> {
        let atom = self.code.split_off(piece);
        let len = atom.len();
        if len == 0 || max == Some(0) {
            return Ok(());
        }
        let copies = max.unwrap_or(min.max(1));
        self.room((len + 1).saturating_mul(copies) + 2)?;
        for _ in 0..min {
            self.code.extend_from_slice(&atom);
        }
        match max {
            // x{2,4} is xx(x(x)?)?: an exit skips the whole rest.
            Some(max) => {
                for left in (1..=max - min).rev() {
                    self.code.push(Step::Branch((left * (len + 1)) as i32));
                    self.code.extend_from_slice(&atom);
                }
            }
            // x+ is x and a branch back; x* is x+ that may be passed over.
            None if min > 0 => self.code.push(Step::Branch(-(len as i32))),
            None => {
                self.code.push(Step::Branch(len as i32 + 2));
                self.code.extend_from_slice(&atom);
                self.code.push(Step::Branch(-(len as i32)));
            }
        }
        Ok(())
    }
}
