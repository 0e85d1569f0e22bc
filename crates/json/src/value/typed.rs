//! `Typed`: the elements of an array of numbers of one type, side by side.
//!
//! Integers and doubles are put into one when an array is made, in the narrowest type that holds every
//! element exactly. The narrower floats come only from JSON.SET's FPHA or from a serialised value; an element
//! of such an array reads as the shortest decimal that its type rounds to it, so that a client reads the
//! decimal that it wrote.

use super::Number;
use half::{bf16, f16};

/// The element types of FPHA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatKind {
    /// The upper half of a `f32`.
    Bf16,
    /// IEEE 754 binary16.
    Fp16,
    /// IEEE 754 binary32.
    Fp32,
    /// IEEE 754 binary64.
    Fp64,
}

impl FloatKind {
    /// The kind of that name, in any case.
    pub fn parse(name: &[u8]) -> Option<FloatKind> {
        let kinds: [(&[u8], FloatKind); 4] = [
            (b"BF16", FloatKind::Bf16),
            (b"FP16", FloatKind::Fp16),
            (b"FP32", FloatKind::Fp32),
            (b"FP64", FloatKind::Fp64),
        ];
        kinds.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }
}

/// Returned when an element has no finite form in the type that FPHA asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// See the module's description.
#[derive(Clone, Debug)]
pub enum Typed {
    /// Integers of 8 bits.
    I8(Vec<i8>),
    /// Integers of 16 bits.
    I16(Vec<i16>),
    /// Integers of 32 bits.
    I32(Vec<i32>),
    /// Integers of 64 bits.
    I64(Vec<i64>),
    /// IEEE 754 binary16.
    F16(Vec<f16>),
    /// The upper half of a `f32`.
    Bf16(Vec<bf16>),
    /// IEEE 754 binary32.
    F32(Vec<f32>),
    /// IEEE 754 binary64.
    F64(Vec<f64>),
}

/// `$body` with `$items` bound to the vector, whatever its type.
macro_rules! each {
    ($typed:expr, $items:ident => $body:expr) => {
        match $typed {
            Typed::I8($items) => $body,
            Typed::I16($items) => $body,
            Typed::I32($items) => $body,
            Typed::I64($items) => $body,
            Typed::F16($items) => $body,
            Typed::Bf16($items) => $body,
            Typed::F32($items) => $body,
            Typed::F64($items) => $body,
        }
    };
}

/// An element's way to a number and back.
trait Element: Copy {
    fn number(self) -> Number;
    /// The number in this type: exact for integers, rounded for floats; none if that is not possible.
    fn from_number(number: Number) -> Option<Self>;
}

macro_rules! integer {
    ($type:ty) => {
        impl Element for $type {
            fn number(self) -> Number {
                Number::Int(self.into())
            }

            fn from_number(number: Number) -> Option<Self> {
                match number {
                    Number::Int(value) => Self::try_from(value).ok(),
                    _ => None,
                }
            }
        }
    };
}

integer!(i8);
integer!(i16);
integer!(i32);
integer!(i64);

impl Element for f64 {
    fn number(self) -> Number {
        Number::Float(self)
    }

    fn from_number(number: Number) -> Option<Self> {
        Some(number.as_f64())
    }
}

impl Element for f32 {
    fn number(self) -> Number {
        let text = ryu::Buffer::new().format_finite(self).parse();
        Number::Float(text.unwrap_or_else(|_| self.into()))
    }

    fn from_number(number: Number) -> Option<Self> {
        let narrow = number.as_f64() as f32;
        narrow.is_finite().then_some(narrow)
    }
}

impl Element for f16 {
    fn number(self) -> Number {
        Number::Float(shortest(self.to_f64(), |value| f16::from_f64(value) == self))
    }

    fn from_number(number: Number) -> Option<Self> {
        let narrow = f16::from_f64(number.as_f64());
        narrow.is_finite().then_some(narrow)
    }
}

impl Element for bf16 {
    fn number(self) -> Number {
        Number::Float(shortest(self.to_f64(), |value| bf16::from_f64(value) == self))
    }

    fn from_number(number: Number) -> Option<Self> {
        let narrow = bf16::from_f64(number.as_f64());
        narrow.is_finite().then_some(narrow)
    }
}

/// The decimal of fewest digits that `rounds` to the element. Whole numbers stay as they are; five digits are
/// enough for 11 bits of precision.
fn shortest(value: f64, rounds: impl Fn(f64) -> bool) -> f64 {
    if value.fract() == 0.0 {
        return value;
    }
    let texts = (0..5).map(|digits| format!("{value:.digits$e}"));
    texts.filter_map(|text| text.parse().ok()).find(|decimal| rounds(*decimal)).unwrap_or(value)
}

fn collect<T: Element>(numbers: &[Number]) -> Option<Vec<T>> {
    let mut items = Vec::with_capacity(numbers.len());
    for number in numbers {
        items.push(T::from_number(*number)?);
    }
    Some(items)
}

impl Typed {
    /// `numbers` in the narrowest type that holds all exactly; none if they are not all integers of `i64` or
    /// all doubles.
    pub fn exact(numbers: &[Number]) -> Option<Typed> {
        if numbers.iter().all(|number| matches!(number, Number::Float(_))) {
            return collect(numbers).map(Typed::F64);
        }
        let narrow = collect(numbers).map(Typed::I8).or_else(|| collect(numbers).map(Typed::I16));
        narrow.or_else(|| collect(numbers).map(Typed::I32)).or_else(|| collect(numbers).map(Typed::I64))
    }

    /// `numbers` in `kind`.
    ///
    /// # Errors
    /// A number that has no finite form in it.
    pub fn rounded(numbers: &[Number], kind: FloatKind) -> Result<Typed, OutOfRange> {
        let typed = match kind {
            FloatKind::Bf16 => collect(numbers).map(Typed::Bf16),
            FloatKind::Fp16 => collect(numbers).map(Typed::F16),
            FloatKind::Fp32 => collect(numbers).map(Typed::F32),
            FloatKind::Fp64 => collect(numbers).map(Typed::F64),
        };
        typed.ok_or(OutOfRange)
    }

    /// Whether every element is a finite number, as those of a value must be.
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Typed::F16(items) => items.iter().all(|item| item.is_finite()),
            Typed::Bf16(items) => items.iter().all(|item| item.is_finite()),
            Typed::F32(items) => items.iter().all(|item| item.is_finite()),
            Typed::F64(items) => items.iter().all(|item| item.is_finite()),
            Typed::I8(_) | Typed::I16(_) | Typed::I32(_) | Typed::I64(_) => true,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        each!(self, items => items.len())
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`.
    pub fn get(&self, index: usize) -> Option<Number> {
        each!(self, items => items.get(index).map(|item| item.number()))
    }

    /// Appends the element's text.
    pub fn write(&self, index: usize, out: &mut Vec<u8>) {
        match self {
            Typed::F32(items) => {
                let text = items.get(index).map(|item| ryu::Buffer::new().format_finite(*item).to_owned());
                out.extend(text.unwrap_or_default().as_bytes());
            }
            _ => {
                if let Some(number) = self.get(index) {
                    number.write(out);
                }
            }
        }
    }

    /// Whether a number can be an element: an integer that fits, or a float that is finite in this type.
    fn fits(&self, number: Number) -> bool {
        fn is_element<T: Element>(_: &[T], number: Number) -> bool {
            T::from_number(number).is_some()
        }
        let is_float = matches!(self, Typed::F16(_) | Typed::Bf16(_) | Typed::F32(_) | Typed::F64(_));
        is_float == matches!(number, Number::Float(_)) && each!(self, items => is_element(items, number))
    }

    /// Puts `number` in the place of the element at `index`; whether it fits.
    pub(super) fn set(&mut self, index: usize, number: Number) -> bool {
        fn put<T: Element>(items: &mut [T], index: usize, number: Number) -> bool {
            match (items.get_mut(index), T::from_number(number)) {
                (Some(item), Some(value)) => {
                    *item = value;
                    true
                }
                _ => false,
            }
        }
        self.fits(number) && each!(self, items => put(items, index, number))
    }

    /// Inserts `numbers` before `index`, which is at most the length; whether all fit, and nothing is done
    /// otherwise.
    pub(super) fn insert(&mut self, index: usize, numbers: &[Number]) -> bool {
        fn put<T: Element>(items: &mut Vec<T>, index: usize, numbers: &[Number]) -> bool {
            let Some(values) = collect::<T>(numbers) else { return false };
            items.splice(index..index, values);
            true
        }
        numbers.iter().all(|number| self.fits(*number)) && each!(self, items => put(items, index, numbers))
    }

    /// Removes the element at `index`, which is below the length.
    pub(super) fn remove(&mut self, index: usize) {
        each!(self, items => {
            items.remove(index);
        });
    }

    /// Keeps the elements of `range`, which lies within the array.
    pub(super) fn keep(&mut self, range: std::ops::Range<usize>) {
        each!(self, items => {
            items.truncate(range.end);
            items.drain(..range.start);
            items.shrink_to_fit();
        });
    }

    /// Bytes of the buffer.
    pub(super) fn buffer_bytes(&self) -> usize {
        fn bytes<T>(items: &Vec<T>) -> usize {
            super::word::allocated(items.capacity() * size_of::<T>())
        }
        each!(self, items => bytes(items))
    }
}
