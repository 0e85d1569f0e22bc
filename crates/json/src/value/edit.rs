//! Making and changing containers: which form a container has, and the edits on one level.
//!
//! Each edit takes a container whose form it may replace, and copies a block that other values share. Callers
//! account for heap bytes with [`Value::block_bytes`] before and after, plus those of the children that came
//! and went.

use super::typed::OutOfRange;
use super::word::Word;
use super::{Big, FloatKind, Member, Number, SMALL_AGAIN, SMALL_MAX, TYPED_MIN, Table, Typed, Value};

/// Puts `value` in the place of another, and adds to `heap` by how much the blocks grow.
pub(crate) fn replace(slot: &mut Value, value: Value, heap: &mut isize) {
    *heap += value.all_bytes() - slot.all_bytes();
    *slot = value;
}

impl Value {
    /// [`Value::heap_bytes`] as a difference has it.
    pub(crate) fn all_bytes(&self) -> isize {
        self.heap_bytes() as isize
    }

    /// An array of these elements. Numbers of one kind become a typed array if there are enough.
    pub fn array(values: impl ExactSizeIterator<Item = Value>) -> Value {
        match values.len() {
            0 => Value::EMPTY_ARRAY,
            length if length < TYPED_MIN => Value::list(values),
            _ => {
                let mut values: Vec<Value> = values.collect();
                values.shrink_to_fit();
                match numbers(&values).and_then(|numbers| Typed::exact(&numbers)) {
                    Some(typed) => Value::big(Big::Typed(typed)),
                    None => Value::mixed(values),
                }
            }
        }
    }

    /// An array under FPHA: an array of numbers only is stored in `kind`, any other as it is without FPHA.
    ///
    /// # Errors
    /// A number that has no finite form in `kind`.
    pub fn float_array(values: Vec<Value>, kind: FloatKind) -> Result<Value, OutOfRange> {
        match numbers(&values) {
            Some(numbers) if !numbers.is_empty() => {
                Typed::rounded(&numbers, kind).map(|typed| Value::big(Big::Typed(typed)))
            }
            _ => Ok(Value::array(values.into_iter())),
        }
    }

    /// An array of typed elements.
    pub fn typed(typed: Typed) -> Value {
        if typed.is_empty() { Value::EMPTY_ARRAY } else { Value::big(Big::Typed(typed)) }
    }

    /// An object of these members; of two of one name the last is kept, at the first one's position.
    pub fn object(members: impl ExactSizeIterator<Item = Member>) -> Value {
        match members.len() {
            0 => Value::EMPTY_OBJECT,
            length if length <= SMALL_MAX => {
                let mut kept: Vec<Member> = Vec::with_capacity(length);
                for member in members {
                    match kept.iter_mut().find(|known| known.name() == member.name()) {
                        Some(known) => known.value = member.value,
                        None => kept.push(member),
                    }
                }
                Value::map(kept.into_iter())
            }
            _ => Value::members(Table::from_members(members)),
        }
    }

    /// An object of members that the caller knows to be of different names, if there are few enough for a
    /// block of exact size; they are checked otherwise.
    pub(crate) fn distinct_object(members: impl ExactSizeIterator<Item = Member>) -> Value {
        match members.len() {
            1..=SMALL_MAX => Value::map(members),
            _ => Value::object(members),
        }
    }

    fn mixed(values: Vec<Value>) -> Value {
        match values.len() {
            0 => Value::EMPTY_ARRAY,
            1..=SMALL_MAX => Value::list(values.into_iter()),
            _ => Value::big(Big::Array(values)),
        }
    }

    fn members(table: Table) -> Value {
        match table.members().len() {
            0 => Value::EMPTY_OBJECT,
            1..=SMALL_MAX => Value::map(table.into_members().into_iter()),
            _ => Value::big(Big::Object(table)),
        }
    }

    /// The value of the member at `position`, to be changed; names are unshared with it only where they must.
    pub(crate) fn member_mut(&mut self, name: &str) -> Option<&mut Value> {
        let super::View::Object(object) = self.view() else { return None };
        let position = object.position(name)?;
        if self.is_map() {
            return self.map_mut()?.get_mut(position).map(|member| &mut member.value);
        }
        match self.big_mut()? {
            Big::Object(table) => table.value_mut(position),
            _ => None,
        }
    }

    fn is_map(&self) -> bool {
        matches!(self.word(), Word::Map(_))
    }

    /// The element at `index`, to be changed; none in a typed array.
    pub(crate) fn element_mut(&mut self, index: usize) -> Option<&mut Value> {
        if matches!(self.word(), Word::List(_)) {
            return self.list_mut()?.get_mut(index);
        }
        match self.big_mut()? {
            Big::Array(values) => values.get_mut(index),
            _ => None,
        }
    }

    /// The elements to be written over by `count` others in the same form; none of any other value, and none
    /// if another value shares them.
    pub(crate) fn own_elements(&mut self, count: usize) -> Option<&mut [Value]> {
        // More of them may have a typed form, for which the values are looked at.
        self.own_list().filter(|values| values.len() == count && count < TYPED_MIN)
    }

    /// The members to be written over by `count` others in the same form; none of any other value, and none
    /// if another value shares them.
    pub(crate) fn own_members(&mut self, count: usize) -> Option<&mut [Member]> {
        self.own_map().filter(|members| members.len() == count)
    }

    /// Puts a member into an object and returns the name's old value. Other values stay as they are.
    pub(crate) fn insert_member(&mut self, name: Value, value: Value) -> Option<Value> {
        let text = name.as_str().unwrap_or_default();
        if let Some(slot) = self.member_mut(text) {
            return Some(std::mem::replace(slot, value));
        }
        if let Some(Big::Object(table)) = self.big_mut() {
            return table.insert(name, value);
        }
        let mut members = self.take_members()?;
        members.push(Member { name, value });
        *self = if members.len() <= SMALL_MAX {
            Value::map(members.into_iter())
        } else {
            Value::members(Table::from_members(members.into_iter()))
        };
        None
    }

    /// Removes a member and returns it; the last one takes its place.
    pub(crate) fn remove_member(&mut self, name: &str) -> Option<Member> {
        let super::View::Object(object) = self.view() else { return None };
        let position = object.position(name)?;
        if let Some(Big::Object(table)) = self.big_mut() {
            let removed = table.remove(position);
            if table.members().len() <= SMALL_AGAIN {
                let table = std::mem::take(table);
                *self = Value::members(table);
            }
            return removed;
        }
        let mut members = self.take_members()?;
        let removed = members.swap_remove(position);
        *self = if members.is_empty() { Value::EMPTY_OBJECT } else { Value::map(members.into_iter()) };
        Some(removed)
    }

    /// The members of a small object, which is left without.
    fn take_members(&mut self) -> Option<Vec<Member>> {
        if !self.is_map() {
            return None;
        }
        let taken = match self.map_mut() {
            Some(members) => {
                let empty = || Member { name: Value::NULL, value: Value::NULL };
                members.iter_mut().map(|member| std::mem::replace(member, empty())).collect()
            }
            None => Vec::new(),
        };
        *self = Value::EMPTY_OBJECT;
        Some(taken)
    }

    /// All elements of an array, which is left empty; none of any other value.
    pub(crate) fn take_elements(&mut self) -> Option<Vec<Value>> {
        let super::View::Array(array) = self.view() else { return None };
        let taken = match array {
            super::Array::Typed(_) => array.iter().map(super::Node::to_value).collect(),
            super::Array::Values(_) => match self.list_mut() {
                Some(values) => values.iter_mut().map(std::mem::take).collect(),
                None => match self.big_mut() {
                    Some(Big::Array(values)) => std::mem::take(values),
                    _ => Vec::new(),
                },
            },
        };
        *self = Value::EMPTY_ARRAY;
        Some(taken)
    }

    /// Replaces an existing element and returns the old one.
    pub(crate) fn set_element(&mut self, index: usize, value: Value) -> Option<Value> {
        if let Some(slot) = self.element_mut(index) {
            return Some(std::mem::replace(slot, value));
        }
        let Some(Big::Typed(typed)) = self.big_mut() else { return None };
        let before = typed.get(index).map(Value::number)?;
        if !value.as_number().is_some_and(|number| typed.set(index, number)) {
            let mut values = self.take_elements()?;
            if let Some(slot) = values.get_mut(index) {
                *slot = value;
            }
            *self = Value::mixed(values);
        }
        Some(before)
    }

    /// Inserts elements before `index`, which is at most the length of this array.
    pub(crate) fn insert_elements(&mut self, index: usize, new: Vec<Value>) {
        match self.word() {
            Word::Big(Big::Array(_)) => {
                if let Some(Big::Array(values)) = self.big_mut() {
                    values.splice(index..index, new);
                }
                return;
            }
            Word::Big(Big::Typed(_)) => {
                if let (Some(numbers), Some(Big::Typed(typed))) = (numbers(&new), self.big_mut())
                    && typed.insert(index, &numbers)
                {
                    return;
                }
            }
            _ => {}
        }
        if let Some(mut values) = self.take_elements() {
            values.splice(index..index, new);
            // Only a new array looks for a typed form: a search at each append would cost its length.
            *self = Value::mixed(values);
        }
    }

    /// Removes an element that is there.
    pub(crate) fn remove_element(&mut self, index: usize) -> Option<Value> {
        let super::View::Array(array) = self.view() else { return None };
        let removed = array.get(index)?.to_value();
        let length = array.len();
        if length > SMALL_AGAIN || matches!(array, super::Array::Typed(_)) && length > 1 {
            match self.big_mut() {
                Some(Big::Array(values)) => {
                    values.remove(index);
                    return Some(removed);
                }
                Some(Big::Typed(typed)) => {
                    typed.remove(index);
                    return Some(removed);
                }
                _ => {}
            }
        }
        let mut values = self.take_elements()?;
        values.remove(index);
        *self = Value::mixed(values);
        Some(removed)
    }

    /// Keeps the elements in `range`, which lies within this array.
    pub(crate) fn keep_elements(&mut self, range: std::ops::Range<usize>) {
        if range.is_empty() {
            *self = Value::EMPTY_ARRAY;
            return;
        }
        if let Some(Big::Typed(typed)) = self.big_mut() {
            typed.keep(range);
            return;
        }
        if let Some(mut values) = self.take_elements() {
            values.truncate(range.end);
            values.drain(..range.start);
            values.shrink_to_fit();
            *self = Value::mixed(values);
        }
    }

    /// Moves the children of an unshared container to `out`, and frees at most one block.
    pub(crate) fn dismantle(mut self, out: &mut Vec<Value>) {
        if !self.is_unshared() {
            return;
        }
        match self.word() {
            Word::Map(_) => {
                out.extend(self.take_members().unwrap_or_default().into_iter().map(|member| member.value))
            }
            Word::Big(Big::Object(_)) => {
                if let Some(Big::Object(table)) = self.big_mut() {
                    let members = std::mem::take(table).into_members();
                    out.extend(members.into_iter().map(|member| member.value));
                }
            }
            Word::List(_) | Word::Big(Big::Array(_)) => out.extend(self.take_elements().unwrap_or_default()),
            _ => {}
        }
    }
}

/// All values as numbers, if they are numbers.
fn numbers(values: &[Value]) -> Option<Vec<Number>> {
    values.iter().map(Value::as_number).collect()
}
