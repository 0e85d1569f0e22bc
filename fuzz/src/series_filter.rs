//! The parser of label filters on any bytes: an accepted filter finds the same series through the index and
//! by a scan.

use martlet_tseries::filter::Filter;
use martlet_tseries::index::LabelIndex;

const LABELS: &[&[(&[u8], &[u8])]] =
    &[&[(b"a", b"1")], &[(b"a", b"2"), (b"b", b"1")], &[(b"b", b"1"), (b"b", b"2")], &[(b"c", b"x y")], &[]];

/// The input is expressions, one a line.
pub fn check(data: &[u8]) {
    let Ok(filter) = Filter::parse(data.split(|byte| *byte == b'\n')) else { return };
    let mut index = LabelIndex::new();
    for (id, labels) in LABELS.iter().enumerate() {
        index.insert(id as u64, labels.iter().copied());
    }
    let mut found = index.matches(&filter).collect();
    found.sort_unstable();
    let admits = |id: &u64| filter.admits(LABELS[*id as usize].iter().copied());
    // A series without labels is in no index.
    let expected: Vec<u64> = (0..LABELS.len() as u64 - 1).filter(admits).collect();
    assert_eq!(found, expected);
}

/// Expressions of every kind, right and wrong.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = &[
        b"a=1",
        b"a=(1,2)\nb!=1",
        b"a=1\nb=",
        b"b=1\na!=",
        b"b=1\nb!=(2,3)",
        b"c=x y",
        b"a=()",
        b"a=(1",
        b"a=(1,,2)",
        b"a=1=2",
        b"=a\nb=1",
        b"a\nb=1",
        b"a!=1",
        b"a=1\0b",
    ];
    texts.iter().map(|text| text.to_vec()).collect()
}
