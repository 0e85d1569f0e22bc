//! The words and suggestions of a node for FT.SPELLCHECK, for the asking node: a reply in a string.

use martlet_client::resp::{self, Reply as Decoded};
use martlet_protocol::reply::Reply;
use martlet_search::spelling::{Found, Misspelled, Suggestion};

/// Encodes the words for [`decode`]: the number of documents, then each word, whether it is known, and its
/// suggestions with their documents.
pub fn encode(found: &Found) -> Vec<u8> {
    let mut part = Reply::new(Vec::new(), false);
    part.array(1 + found.words.len());
    part.unsigned(found.documents);
    for Misspelled { word, is_known, suggestions } in &found.words {
        part.array(2 + 2 * suggestions.len());
        part.bulk(word);
        part.int(i64::from(*is_known));
        for Suggestion { text, documents } in suggestions {
            part.bulk(text);
            part.unsigned(*documents);
        }
    }
    part.into_bytes()
}

/// Decodes the words; `None` if the bytes are malformed.
pub fn decode(bytes: &[u8]) -> Option<Found> {
    let (Decoded::Array(fields), length) = resp::decode(bytes).ok()?? else { return None };
    let mut fields = fields.into_iter();
    let documents = number(fields.next()?)?;
    let words = fields.map(decode_word).collect::<Option<_>>()?;
    (length == bytes.len()).then_some(Found { documents, words })
}

fn decode_word(word: Decoded) -> Option<Misspelled> {
    let Decoded::Array(fields) = word else { return None };
    let mut fields = fields.into_iter();
    let (word, is_known) = (text(fields.next()?)?, number(fields.next()?)? != 0);
    let mut suggestions = Vec::new();
    while let Some(field) = fields.next() {
        suggestions.push(Suggestion { text: text(field)?, documents: number(fields.next()?)? });
    }
    Some(Misspelled { word, is_known, suggestions })
}

fn number(value: Decoded) -> Option<u64> {
    match value {
        Decoded::Int(number) => u64::try_from(number).ok(),
        _ => None,
    }
}

fn text(value: Decoded) -> Option<Box<[u8]>> {
    match value {
        Decoded::Bulk(text) => Some(text.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use martlet_base::random::Random;

    use super::*;

    #[test]
    fn what_was_found_arrives_as_it_was_and_nothing_else_is_read() {
        let seed = Random::from_entropy().next_u64();
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        for _ in 0..100 {
            let mut text = || Box::from(&b"w\r\n\0ord"[..random.below(8) as usize]);
            let mut suggestion = |documents| Suggestion { text: text(), documents };
            let suggestions = vec![suggestion(3), suggestion(0)];
            let words = vec![
                Misspelled { word: text(), is_known: false, suggestions },
                Misspelled { word: text(), is_known: true, suggestions: Vec::new() },
            ];
            let sent = Found { documents: 7, words };
            let bytes = encode(&sent);
            assert_eq!(decode(&bytes), Some(sent), "seed {seed}");
            let end = random.below(bytes.len() as u64) as usize;
            assert_eq!(decode(&bytes[..end]), None, "seed {seed}");
            assert_eq!(decode(&[&bytes[..], b"+"].concat()), None);
            // Whatever the bytes are, reading them ends.
            let mut mutated = bytes;
            let at = random.below(mutated.len() as u64) as usize;
            mutated[at] = random.next_u64() as u8;
            let _ = decode(&mutated);
        }
        assert_eq!(decode(b"*2\r\n:1\r\n*3\r\n$1\r\na\r\n:0\r\n$1\r\nb\r\n"), None);
    }
}
