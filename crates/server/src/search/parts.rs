//! A node's part of a search as it goes to the node that was asked: a reply in a string.
//!
//! A row's values of order are exact (the bits of numbers); the row itself is there as the client gets it.

use martlet_client::resp::{self, Reply as Decoded};
use martlet_indexes::{Results, Row};
use martlet_protocol::reply::Reply;
use martlet_search::index::sortables::Sortable;
use martlet_search::merging::{Part, PartRow};
use martlet_search::request::Search;

use super::reply::write_row;

/// The part of these results for a client that gets RESP3, or RESP2.
pub fn encode(request: &Search, results: &Results, is_resp3: bool) -> Vec<u8> {
    let mut part = Reply::new(Vec::new(), false);
    part.array(3);
    part.count(results.total);
    part.int(i64::from(results.is_partial));
    part.array(results.rows.len());
    for row in &results.rows {
        part.array(5);
        part.bulk(&row.hit.key);
        part.int(row.hit.score.to_bits().cast_signed());
        match row.hit.distance() {
            Some(distance) => part.int(i64::from(distance.to_bits())),
            None => part.null(),
        }
        match &row.hit.sortable {
            Some(Sortable::Number(number)) => part.int(number.to_bits().cast_signed()),
            Some(Sortable::Text(text)) => part.bulk(text),
            Some(Sortable::Missing) | None => part.null(),
        }
        part.bulk(&body(request, row, is_resp3));
    }
    part.into_bytes()
}

fn body(request: &Search, row: &Row, is_resp3: bool) -> Vec<u8> {
    let mut body = Reply::new(Vec::new(), is_resp3);
    write_row(request, row, &mut body);
    body.into_bytes()
}

/// Decodes a part; `None` if the bytes are malformed.
pub fn decode(bytes: &[u8]) -> Option<Part> {
    let (Decoded::Array(fields), length) = resp::decode(bytes).ok()?? else { return None };
    let [Decoded::Int(total), Decoded::Int(is_partial), Decoded::Array(rows)] =
        <[_; 3]>::try_from(fields).ok()?
    else {
        return None;
    };
    let rows = rows.into_iter().map(decode_row).collect::<Option<Vec<_>>>()?;
    let is_whole = length == bytes.len();
    is_whole.then_some(Part { total: usize::try_from(total).ok()?, is_partial: is_partial != 0, rows })
}

fn decode_row(row: Decoded) -> Option<PartRow> {
    let Decoded::Array(fields) = row else { return None };
    let [Decoded::Bulk(key), Decoded::Int(score), distance, sortable, Decoded::Bulk(body)] =
        <[_; 5]>::try_from(fields).ok()?
    else {
        return None;
    };
    let distance = match distance {
        Decoded::Int(bits) => Some(f32::from_bits(u32::try_from(bits).ok()?)),
        _ => None,
    };
    let sortable = match sortable {
        Decoded::Int(bits) => Some(Sortable::Number(f64::from_bits(bits.cast_unsigned()))),
        Decoded::Bulk(text) => Some(Sortable::Text(text.into())),
        _ => None,
    };
    Some(PartRow { key, score: f64::from_bits(score.cast_unsigned()), distance, sortable, body })
}

#[cfg(test)]
mod tests {
    use martlet_indexes::Loaded;
    use martlet_search::exec::Hit;
    use martlet_search::request::Limits;

    use super::*;

    fn row(sortable: Option<Sortable>, distance: Option<f32>) -> Row {
        let hit = Hit {
            key: Box::from(b"k\r\n".as_slice()),
            partition: 0,
            id: 1,
            sequence: 1,
            score: 0.1 + 0.2,
            explanation: None,
            distances: [distance].into_iter().collect(),
            sortable,
            payload: None,
        };
        let fields = Some(vec![(Box::from(b"f".as_slice()), Loaded::Text(b"v".to_vec()))]);
        Row { hit, fields }
    }

    #[test]
    fn a_part_arrives_as_it_was() {
        let request = Search::parse(&[b"*"], &Limits::default()).unwrap();
        let values = [
            (None, None),
            (Some(Sortable::Number(-0.0)), Some(1.5)),
            (Some(Sortable::Text(b"x".as_slice().into())), Some(f32::NAN)),
        ];
        let rows: Vec<Row> =
            values.iter().cloned().map(|(sortable, distance)| row(sortable, distance)).collect();
        let results = Results { total: 7, rows, is_partial: true };
        for is_resp3 in [false, true] {
            let bytes = encode(&request, &results, is_resp3);
            let part = decode(&bytes).unwrap();
            assert_eq!((part.total, part.is_partial, part.rows.len()), (7, true, 3));
            for (row, (sortable, distance)) in part.rows.iter().zip(&values) {
                assert_eq!((&*row.key, row.score), (b"k\r\n".as_slice(), 0.1 + 0.2));
                assert_eq!(row.distance.map(f32::to_bits), distance.map(f32::to_bits));
                assert_eq!(&row.sortable, sortable);
                let expected = if is_resp3 { b"%3".as_slice() } else { b"$3" };
                assert!(row.body.starts_with(expected), "{:?}", row.body);
            }
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), None);
            }
        }
    }
}
