//! Pairs of a listpack that can be copied as they lie: fields and values, members and scores.
//!
//! The copy takes over what is short, in its shortest form, in order and without repetition, which is nearly
//! all there is. Of anything else it takes nothing: the listpack is then read element by element, which says
//! what is wrong with it.

use martlet_rdb::listpack::Reader;
use martlet_types::hash::HashLimits;
use martlet_types::packed::Packed;
use martlet_types::zset::ZSetLimits;

/// Length of the longest text that is copied.
const TEXT_MAX_BYTES: usize = 63;

/// Names that have been met, by a few bits of each.
#[derive(Default)]
struct Met([u64; 8]);

impl Met {
    /// Notes a name; whether it is sure not to have been met.
    #[inline]
    fn is_new(&mut self, name: &[u8]) -> bool {
        let (head, tail) = (&name[..name.len().min(8)], &name[name.len().saturating_sub(8)..]);
        let bits = |bytes: &[u8]| bytes.iter().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let mixed = (bits(head) ^ bits(tail).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (word, bit) = ((mixed >> 61) as usize, 1 << (mixed >> 55 & 63));
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

/// Whether another pair of short elements is within all limits.
#[inline]
fn has_room(packed: &Packed, pairs_max: usize) -> bool {
    packed.len() / 2 < pairs_max && packed.has_room(2, 2 * TEXT_MAX_BYTES)
}

/// Appends a name that must not be there already; `None` if it is.
#[inline]
fn push_name(packed: &mut Packed, met: &mut Met, (entry, size): (&[u8], usize)) -> Option<()> {
    let is_new = met.is_new(&entry[..size]);
    let before = packed.len();
    packed.push_encoded(entry, size);
    let element = || packed.get(before);
    // Of equal names the first one is found.
    (is_new || element().and_then(|name| packed.find(name, 2)) == Some(before)).then_some(())
}

/// The fields and values of a hash that stays in the small encoding.
pub(crate) fn fields(mut elements: Reader<'_>, limits: HashLimits) -> Option<Packed> {
    if limits.listpack_max_value_bytes < TEXT_MAX_BYTES {
        return None;
    }
    let (mut packed, mut met) = (Packed::with_capacity(elements.element_bytes()), Met::default());
    while !elements.is_at_end() {
        if !has_room(&packed, limits.listpack_max_entries) {
            return None;
        }
        push_name(&mut packed, &mut met, elements.short_entry()?)?;
        let (entry, size) = elements.short_entry()?;
        packed.push_encoded(entry, size);
    }
    (!packed.is_empty()).then_some(packed)
}

/// The members and scores of a sorted set that stays in the small encoding, all scores integers.
pub(crate) fn scores(mut elements: Reader<'_>, limits: ZSetLimits) -> Option<Packed> {
    if limits.listpack_max_value_bytes < TEXT_MAX_BYTES {
        return None;
    }
    let (mut packed, mut met) = (Packed::with_capacity(elements.element_bytes()), Met::default());
    let mut last: Option<i64> = None;
    while !elements.is_at_end() {
        if !has_room(&packed, limits.listpack_max_entries) {
            return None;
        }
        let before = packed.len();
        push_name(&mut packed, &mut met, elements.short_entry()?)?;
        let (entry, size, score) = elements.short_int()?;
        let ascends = match last {
            Some(last) if last == score => packed.get(before.checked_sub(2)?)? < packed.get(before)?,
            last => last.is_none_or(|last| last < score),
        };
        if !ascends {
            return None;
        }
        packed.push_encoded(entry, size);
        last = Some(score);
    }
    (!packed.is_empty()).then_some(packed)
}

#[cfg(test)]
mod tests {
    use martlet_rdb::listpack;
    use martlet_types::element::Element;
    use proptest::prelude::*;

    use super::*;

    fn listpack_of<'e>(elements: impl IntoIterator<Item = Element<'e>>) -> Vec<u8> {
        let mut writer = listpack::Writer::new();
        elements.into_iter().for_each(|element| writer.push(element));
        writer.finish(<[u8]>::to_vec)
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            4 => "[a-c]{0,3}".prop_map(String::into_bytes),
            3 => any::<i64>().prop_flat_map(|n| (0..64u32).prop_map(move |shift| (n >> shift).to_string().into_bytes())),
            1 => proptest::collection::vec(any::<u8>(), 0..80),
        ]
    }

    proptest! {
        #[test]
        fn copied_fields_are_those_that_are_read(fields in proptest::collection::vec((text(), text()), 0..40)) {
            let elements = fields.iter().flat_map(|(name, value)| [name, value]);
            let bytes = listpack_of(elements.map(|text| Element::parse(text)));
            let reader = listpack::read(&bytes).unwrap();
            let limits = HashLimits::default();
            let names: std::collections::HashSet<&Vec<u8>> = fields.iter().map(|(name, _)| name).collect();
            let is_short = |text: &Vec<u8>| match Element::parse(text) {
                Element::Int(int) => i32::try_from(int).is_ok(),
                // A text that may be an integer is looked at.
                Element::Bytes(text) => {
                    text.len() <= TEXT_MAX_BYTES && !text.first().is_some_and(|b| matches!(b, b'0'..=b'9' | b'-'))
                }
            };
            let is_copied = !fields.is_empty()
                && names.len() == fields.len()
                && fields.iter().all(|(name, value)| is_short(name) && is_short(value));
            let packed = super::fields(reader.clone(), limits);
            prop_assert_eq!(packed.is_some(), is_copied);
            if let Some(packed) = packed {
                let read: Result<Vec<_>, _> = reader.collect();
                prop_assert!(packed.iter().eq(read.unwrap()));
            }
        }

        #[test]
        fn copied_scores_ascend(entries in proptest::collection::vec(("[a-e]{1,2}", -5..5i64), 0..12)) {
            let elements: Vec<Element<'_>> = entries
                .iter()
                .flat_map(|(member, score)| [Element::parse(member.as_bytes()), Element::Int(*score)])
                .collect();
            let bytes = listpack_of(elements.iter().copied());
            let members: std::collections::HashSet<_> = entries.iter().map(|(member, _)| member).collect();
            let ascend = entries.is_sorted_by(|a, b| (a.1, &a.0) < (b.1, &b.0));
            let packed = scores(listpack::read(&bytes).unwrap(), ZSetLimits::default());
            prop_assert_eq!(packed.is_some(), ascend && !entries.is_empty() && members.len() == entries.len());
            if let Some(packed) = packed {
                prop_assert!(packed.iter().eq(elements));
            }
        }

        #[test]
        fn any_bytes_are_copied_as_they_are_read(
            body in proptest::collection::vec(prop_oneof![Just(0xffu8), 0..6u8, any::<u8>()], 0..40),
            count in prop_oneof![0..8u16, Just(u16::MAX)],
        ) {
            let total = (6 + body.len()) as u32;
            let bytes = [&total.to_le_bytes()[..], &count.to_le_bytes(), &body].concat();
            let reader = listpack::read(&bytes).unwrap();
            let copies = [
                super::fields(reader.clone(), HashLimits::default()),
                scores(reader.clone(), ZSetLimits::default()),
            ];
            for packed in copies.into_iter().flatten() {
                let read: Result<Vec<_>, _> = reader.clone().collect();
                prop_assert!(packed.iter().eq(read.expect("a sound listpack")));
            }
        }
    }

    #[test]
    fn limits_leave_it_to_the_reader() {
        let names: Vec<String> = (0..5).map(|number| format!("n{number}")).collect();
        let elements = names.iter().flat_map(|name| [Element::parse(name.as_bytes()), Element::Int(7)]);
        let bytes = listpack_of(elements);
        let read = |pairs_max, text_max| {
            let limits = HashLimits { listpack_max_entries: pairs_max, listpack_max_value_bytes: text_max };
            fields(listpack::read(&bytes).unwrap(), limits).map(|packed| packed.len())
        };
        assert_eq!([read(5, 64), read(4, 64), read(5, 62), read(128, 63)], [Some(10), None, None, Some(10)]);
    }
}
