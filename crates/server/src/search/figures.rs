//! The figures of an index that FT.INFO shows: of a node's documents, and of those of all nodes.
//!
//! Figures of nodes are joined as RediSearch's coordinator joins them: sums, but for the greatest id, number
//! of uses and times; an average is that of all documents, records or cycles, not of the nodes' averages.

use martlet_client::resp::{self, Reply as Decoded};
use martlet_indexes::KeyIndex;
use martlet_protocol::reply::Reply;
use martlet_search::Error;
use martlet_search::index::census::Sizes;
use martlet_search::index::whole::Failures;

/// Open cursors.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursors {
    /// Of all indexes, those that no client reads at present.
    pub global_idle: u64,
    /// Of all indexes.
    pub global_total: u64,
    /// The most that an index may have.
    pub index_capacity: u64,
    /// Of this index.
    pub index_total: u64,
}

/// See the [module docs](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// The counts.
    pub sizes: Sizes,
    /// Bytes of the shapes.
    pub shape_bytes: u64,
    /// Documents that could not be indexed.
    pub failures: Failures,
    /// By field, documents that could not be indexed.
    pub failures_of_fields: Vec<Failures>,
    /// The time that documents have taken, nanoseconds: the greatest of the nodes.
    pub indexing_ns: u64,
    /// Nodes that are not done with scanning their keys.
    pub scanning: u64,
    /// Nodes that have dead documents to collect.
    pub cleaning: u64,
    /// The parts of the keys that were scanned, between 0 and 1, of all nodes together.
    pub scanned: f64,
    /// How many nodes these are.
    pub nodes: u64,
    /// How often the index was asked.
    pub uses: u64,
    /// Collections: how many, and milliseconds of all and of the last one.
    pub collections: u64,
    /// See [`collections`](Figures::collections).
    pub collections_ms: u64,
    /// See [`collections`](Figures::collections).
    pub last_collection_ms: u64,
    /// Open cursors.
    pub cursors: Cursors,
    /// The dialects, from 1 on, whether queries have had them.
    pub dialects: Vec<bool>,
}

/// The most fields of an answer's lists; an index has fewer.
const LIST_MAX: usize = 1 << 16;

impl Figures {
    /// The figures of this node's documents.
    pub fn of(index: &KeyIndex, sizes: Sizes, cursors: Cursors) -> Figures {
        let own = index.index();
        let (failures, failures_of_fields) = own.failures();
        let (collections, progress) = (own.collections(), index.progress());
        let milliseconds = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Figures {
            cleaning: u64::from(sizes.is_collecting),
            sizes,
            shape_bytes: own.shape_bytes() as u64,
            failures,
            failures_of_fields,
            indexing_ns: u64::try_from(own.indexing_time().as_nanos()).unwrap_or(u64::MAX),
            scanning: u64::from(!progress.is_done()),
            scanned: progress.done,
            nodes: 1,
            uses: index.uses(),
            collections: collections.cycles,
            collections_ms: milliseconds(collections.total),
            last_collection_ms: milliseconds(collections.last),
            cursors,
            dialects: index.dialects().into_iter().collect(),
        }
    }

    /// Figures that are added.
    fn sums(&mut self) -> [&mut u64; 24] {
        let Figures { sizes, cursors, .. } = self;
        [
            &mut sizes.documents,
            &mut sizes.terms,
            &mut sizes.records,
            &mut sizes.blocks,
            &mut sizes.inverted_bytes,
            &mut sizes.offset_bytes,
            &mut sizes.document_bytes,
            &mut sizes.sortable_bytes,
            &mut sizes.key_table_bytes,
            &mut sizes.tag_bytes,
            &mut sizes.text_bytes,
            &mut sizes.vector_bytes,
            &mut sizes.collected_bytes,
            &mut self.shape_bytes,
            &mut self.scanning,
            &mut self.cleaning,
            &mut self.nodes,
            &mut self.collections,
            &mut self.collections_ms,
            &mut cursors.global_idle,
            &mut cursors.global_total,
            &mut cursors.index_capacity,
            &mut cursors.index_total,
            &mut self.failures.count,
        ]
    }

    /// Figures of which the greatest counts.
    fn greatest(&mut self) -> [&mut u64; 4] {
        [&mut self.sizes.ids, &mut self.uses, &mut self.indexing_ns, &mut self.last_collection_ms]
    }

    /// Numbers that are no whole ones.
    fn shares(&mut self) -> [&mut f64; 3] {
        [&mut self.scanned, &mut self.sizes.offsets_per_record, &mut self.sizes.offset_bits]
    }

    /// Adds the figures of other documents of the same index.
    pub fn merge(&mut self, mut other: Figures) {
        let places = |figures: &Figures| figures.sizes.records as f64 * figures.sizes.offsets_per_record;
        let both = places(self) + places(&other);
        let records = self.sizes.records.saturating_add(other.sizes.records) as f64;
        let bits = places(self) * self.sizes.offset_bits + places(&other) * other.sizes.offset_bits;
        let share = |part: f64, of: f64| if of == 0.0 { 0.0 } else { part / of };
        self.sizes.offsets_per_record = share(both, records);
        self.sizes.offset_bits = share(bits, both);
        self.scanned += other.scanned;
        self.failures.last = other.failures.last.take().or(self.failures.last.take());
        self.sums()
            .into_iter()
            .zip(other.sums())
            .for_each(|(mine, other)| *mine = mine.saturating_add(*other));
        self.greatest()
            .into_iter()
            .zip(other.greatest())
            .for_each(|(mine, other)| *mine = (*mine).max(*other));
        self.failures_of_fields
            .resize(self.failures_of_fields.len().max(other.failures_of_fields.len()), Failures::default());
        for (mine, other) in self.failures_of_fields.iter_mut().zip(other.failures_of_fields) {
            mine.count = mine.count.saturating_add(other.count);
            mine.last = other.last.or(mine.last.take());
        }
        self.dialects.resize(self.dialects.len().max(other.dialects.len()), false);
        self.dialects.iter_mut().zip(other.dialects).for_each(|(mine, other)| *mine |= other);
    }

    /// The figures as a reply in a string, for [`decode`](Figures::decode).
    pub fn encode(mut self) -> Vec<u8> {
        let mut part = Reply::new(Vec::new(), false);
        part.array(5);
        part.array(self.sums().len() + self.greatest().len());
        self.sums().into_iter().for_each(|number| part.int(number.cast_signed()));
        self.greatest().into_iter().for_each(|number| part.int(number.cast_signed()));
        part.array(self.shares().len());
        self.shares().into_iter().for_each(|number| part.int(number.to_bits().cast_signed()));
        part.array(self.dialects.len());
        self.dialects.iter().for_each(|used| part.int(i64::from(*used)));
        encode_failures(&self.failures, &mut part);
        part.array(self.failures_of_fields.len());
        self.failures_of_fields.iter().for_each(|failures| encode_failures(failures, &mut part));
        part.into_bytes()
    }

    /// Decodes figures; `None` if the bytes are malformed.
    pub fn decode(bytes: &[u8]) -> Option<Figures> {
        let (fields, length) = resp::decode(bytes).ok()??;
        let [counts, shares, dialects, failures, of_fields] = list(fields)?.try_into().ok()?;
        let mut figures = Figures::default();
        let mut counts = list(counts)?.into_iter();
        for place in figures.sums() {
            *place = whole(counts.next()?)?;
        }
        for place in figures.greatest() {
            *place = whole(counts.next()?)?;
        }
        let shares: Vec<u64> = list(shares)?.into_iter().map(whole).collect::<Option<_>>()?;
        for (place, bits) in figures.shares().into_iter().zip(shares) {
            *place = f64::from_bits(bits);
        }
        let used = |one| whole(one).map(|number| number != 0);
        figures.dialects = list(dialects)?.into_iter().map(used).collect::<Option<_>>()?;
        figures.failures = decode_failures(failures)?;
        figures.failures_of_fields =
            list(of_fields)?.into_iter().map(decode_failures).collect::<Option<_>>()?;
        (length == bytes.len()).then_some(figures)
    }
}

fn encode_failures(failures: &Failures, part: &mut Reply) {
    part.array(3);
    part.int(failures.count.cast_signed());
    match &failures.last {
        Some((error, key)) => {
            part.bulk(error.text().as_bytes());
            part.bulk(key);
        }
        None => {
            part.null();
            part.null();
        }
    }
}

fn list(value: Decoded) -> Option<Vec<Decoded>> {
    match value {
        Decoded::Array(values) if values.len() <= LIST_MAX => Some(values),
        _ => None,
    }
}

fn whole(value: Decoded) -> Option<u64> {
    match value {
        Decoded::Int(number) => Some(number.cast_unsigned()),
        _ => None,
    }
}

fn decode_failures(value: Decoded) -> Option<Failures> {
    let [count, error, key] = list(value)?.try_into().ok()?;
    let last = match (error, key) {
        (Decoded::Bulk(error), Decoded::Bulk(key)) => {
            Some((Error::new(String::from_utf8(error).ok()?), key.into()))
        }
        (Decoded::NullBulk, Decoded::NullBulk) => None,
        _ => return None,
    };
    Some(Failures { count: whole(count)?, last })
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;

    fn failures(random: &mut Random) -> Failures {
        let last = (random.below(2) == 0).then(|| (Error::new("bad"), Box::from(b"k\r\n".as_slice())));
        Failures { count: random.below(9), last }
    }

    fn figures(random: &mut Random) -> Figures {
        let mut figures = Figures {
            failures_of_fields: (0..random.below(4)).map(|_| failures(random)).collect(),
            dialects: (0..4).map(|_| random.below(2) == 0).collect(),
            ..Figures::default()
        };
        figures.sums().into_iter().for_each(|place| *place = random.below(1 << 40));
        figures.greatest().into_iter().for_each(|place| *place = random.below(1 << 40));
        figures.shares().into_iter().for_each(|place| *place = random.below(1000) as f64 / 8.0);
        figures.failures = failures(random);
        figures
    }

    #[test]
    fn figures_arrive_as_they_were_and_nothing_else_is_read() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for _ in 0..100 {
            let sent = figures(&mut random);
            let bytes = sent.clone().encode();
            assert_eq!(Figures::decode(&bytes), Some(sent), "seed {seed}");
            let end = random.below(bytes.len() as u64) as usize;
            assert_eq!(Figures::decode(&bytes[..end]), None, "seed {seed}");
            assert_eq!(Figures::decode(&[&bytes[..], b"+"].concat()), None);
            // Whatever the bytes are, reading them ends.
            let mut mutated = bytes;
            let at = random.below(mutated.len() as u64) as usize;
            mutated[at] = random.next_u64() as u8;
            let _ = Figures::decode(&mutated);
        }
    }

    #[test]
    fn figures_of_two_nodes_are_those_of_their_documents() {
        let sizes = |records, places: f64, bits, ids| Sizes {
            documents: records / 2,
            records,
            ids,
            offsets_per_record: places,
            offset_bits: bits,
            ..Sizes::default()
        };
        let of = |sizes, uses, scanned, count| Figures {
            sizes,
            uses,
            scanned,
            nodes: 1,
            failures: Failures { count, last: Some((Error::new("bad"), Box::from(b"k".as_slice()))) },
            dialects: vec![uses == 2, true],
            ..Figures::default()
        };
        let mut all = of(sizes(10, 2.0, 8.0, 5), 2, 1.0, 1);
        all.failures_of_fields = vec![Failures { count: 1, last: None }];
        let mut other = of(sizes(30, 1.0, 16.0, 9), 7, 0.5, 2);
        other.failures.last = None;
        all.merge(other);
        // Figures without documents change nothing.
        all.merge(Figures::default());
        assert_eq!((all.sizes.documents, all.sizes.records, all.sizes.ids, all.uses), (20, 40, 9, 7));
        assert_eq!((all.scanned, all.nodes, all.failures.count), (1.5, 2, 3));
        assert!(all.failures.last.is_some());
        // 20 places of 8 bits and 30 of 16.
        assert_eq!((all.sizes.offsets_per_record, all.sizes.offset_bits), (1.25, 12.8));
        assert_eq!((all.dialects, all.failures_of_fields.len()), (vec![true, true], 1));
    }
}
