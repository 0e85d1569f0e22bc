//! Counts against an index of known contents.

use martlet_base::hash::hash_bytes;

use super::*;
use crate::definition::{Context, create};
use crate::index::content::Content;
use crate::index::sortables::Sortable;

#[test]
fn an_index_of_several_partitions_is_counted_whole() {
    let words: Vec<&[u8]> =
        "i SCHEMA t TEXT SORTABLE g TAG n NUMERIC".split(' ').map(str::as_bytes).collect();
    let definition = create(&words, Context { memory_bytes: 1 << 30, is_path: |_| true }).unwrap();
    let counted = |partitions| {
        let index = Arc::new(Index::new(definition.clone(), partitions));
        for at in 0..5_000_u32 {
            let (mut content, key) = (Content::default(), format!("key:{at}"));
            content.key.extend_from_slice(key.as_bytes());
            content.fingerprint = u64::from(at);
            content.terms.add(format!("word{}", at % 1_000).as_bytes(), 0, 1, 1, true);
            content.terms.add(b"all", 0, 2, 1, true);
            content.tags.push((1, format!("tag{}", at % 10).into_bytes().into()));
            content.numbers.push((2, f64::from(at)));
            content.sortables.push(Sortable::Text(Box::from(&b"12345"[..])));
            index.put(hash_bytes(key.as_bytes()), &mut content).unwrap();
        }
        let mut census = Census::new(Arc::clone(&index));
        while !census.step() {}
        (census.into_sizes(), index.heap_bytes() as u64)
    };
    for partitions in [1, 4] {
        let (sizes, heap_bytes) = counted(partitions);
        assert_eq!((sizes.documents, sizes.ids, sizes.terms), (5_000, 5_000, 1_001));
        assert_eq!(sizes.records, 4 * 5_000);
        assert_eq!((sizes.offsets_per_record, sizes.offset_bits), (0.5, 8.0));
        assert_eq!(sizes.offset_bytes, 10_000);
        // Eight bytes a document; the text is there once in a partition.
        assert!((40_000..48_000).contains(&sizes.sortable_bytes), "{}", sizes.sortable_bytes);
        let sum = [
            sizes.inverted_bytes,
            sizes.offset_bytes,
            sizes.document_bytes,
            sizes.sortable_bytes,
            sizes.key_table_bytes,
            sizes.tag_bytes,
            sizes.text_bytes,
            sizes.vector_bytes,
        ];
        assert_eq!(sum.iter().sum::<u64>(), heap_bytes, "{sizes:?}");
    }
}
